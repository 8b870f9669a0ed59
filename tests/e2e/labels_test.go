package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

const tier = "harvesterhci.io/tier"

// labels sets labels of an object; an empty value removes one.
func labels(t *testing.T, values map[string]string, send func(context.Context, []byte) error) {
	t.Helper()
	changes := map[string]any{}
	for key, value := range values {
		changes[key] = nil
		if value != "" {
			changes[key] = value
		}
	}
	operator.Patch(t, map[string]any{"metadata": map[string]any{"labels": changes}}, send)
}

func labelVMI(t *testing.T, c *cluster.Cluster, namespace, name string, values map[string]string) {
	t.Helper()
	labels(t, values, func(ctx context.Context, raw []byte) error {
		_, err := c.KubeVirt.KubevirtV1().VirtualMachineInstances(namespace).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
}

func labelPod(t *testing.T, c *cluster.Cluster, namespace, name string, values map[string]string) {
	t.Helper()
	labels(t, values, func(ctx context.Context, raw []byte) error {
		_, err := c.Kube.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
}

// differs says how labels differ from what is wanted, "" when they do not; an empty
// value is that of a label that is not to be there.
func differs(object metav1.Object, want map[string]string) string {
	var wrong []string
	for key, value := range want {
		if got, there := object.GetLabels()[key]; got != value || there != (value != "") {
			wrong = append(wrong, fmt.Sprintf("%s=%q (there: %t), want %q", key, got, there, value))
		}
	}
	return strings.Join(wrong, ", ")
}

func awaitPodLabels(t *testing.T, c *cluster.Cluster, namespace, name string, want map[string]string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	c.Eventually(t, fmt.Sprintf("pod %s has the labels %v", name, want), func(ctx context.Context) (err error) {
		if pod, err = c.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if wrong := differs(pod, want); wrong != "" {
			return fmt.Errorf("%s", wrong)
		}
		return nil
	})
	return pod
}

func awaitVMILabels(t *testing.T, c *cluster.Cluster, namespace, name string, want map[string]string) {
	t.Helper()
	c.AwaitVMI(t, namespace, name, fmt.Sprintf("labels %v", want), func(vmi *virtv1.VirtualMachineInstance) bool { return differs(vmi, want) == "" })
}

// copies are the manager's successful writes of labels: on VMIs and pods it writes
// nothing else.
func copies(t *testing.T, mark *cluster.Audit, namespace string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, r := range writes(t, mark, namespace, "") {
		if r.Verb == "patch" && r.Subresource == "" && r.Code == 200 && (r.Resource == "pods" || r.Resource == "virtualmachineinstances") {
			counts[r.Resource+"/"+r.Name]++
		}
	}
	return counts
}

// A label that is set, changed or removed while the VM runs reaches VMI and launcher
// within the same instance, by one write each. What others have put there stays.
func TestALabelOfARunningVMReachesVMIAndLauncher(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 1)
	operator.Create(t, operator.Movable(c, ns, "a", pool))
	vmi, launcher := getVMI(t, c, ns, "a"), launcherOf(t, c, ns, "a")
	others := map[string]string{"example.com/team": "blue", "app": "shop"}
	labelVMI(t, c, ns, "a", others)
	labelPod(t, c, ns, launcher, map[string]string{"harvesterhci.io/foreign": "x", "example.com/pod": "y"})
	before := awaitPodLabels(t, c, ns, launcher, map[string]string{"harvesterhci.io/foreign": "x"})
	mark := c.Audit(t, "drydock")

	steps := []string{"Shutdown", "Migrate", "", "ShutdownAndRestartAfterEnable"}
	for _, strategy := range steps {
		operator.Relabel(t, c, ns, "a", strategy)
		want := map[string]string{maintenance.LabelStrategy: strategy}
		awaitVMILabels(t, c, ns, "a", want)
		awaitPodLabels(t, c, ns, launcher, want)
	}
	// A label that the flag lists reaches the VMI and, without the prefix, no further.
	for _, value := range []string{"x", ""} {
		labels(t, map[string]string{listed: value}, func(ctx context.Context, raw []byte) error {
			_, err := c.KubeVirt.KubevirtV1().VirtualMachines(ns).Patch(ctx, "a", types.MergePatchType, raw, metav1.PatchOptions{})
			return err
		})
		awaitVMILabels(t, c, ns, "a", map[string]string{listed: value})
	}
	// Any label with the prefix that is put on the VMI reaches the pod and, since
	// Drydock had copied it, leaves it again.
	labelVMI(t, c, ns, "a", map[string]string{tier: "gold"})
	awaitPodLabels(t, c, ns, launcher, map[string]string{tier: "gold"})
	labelVMI(t, c, ns, "a", map[string]string{tier: "", maintenance.LabelStrategy: "Migrate"})
	pod := awaitPodLabels(t, c, ns, launcher, map[string]string{tier: "", maintenance.LabelStrategy: "ShutdownAndRestartAfterEnable"})

	if wrong := differs(pod, map[string]string{
		"harvesterhci.io/foreign": "x", "example.com/pod": "y", "example.com/team": "", "app": "", listed: "",
		"kubevirt.io": "virt-launcher", virtv1.CreatedByLabel: before.Labels[virtv1.CreatedByLabel], virtv1.NodeNameLabel: before.Labels[virtv1.NodeNameLabel],
	}); wrong != "" {
		t.Errorf("labels of others on the pod: %s", wrong)
	}
	after := getVMI(t, c, ns, "a")
	others[virtv1.NodeNameLabel] = vmi.Labels[virtv1.NodeNameLabel]
	if wrong := differs(after, others); wrong != "" {
		t.Errorf("labels of others on the VMI: %s", wrong)
	}
	if after.UID != vmi.UID || pod.UID != before.UID || !pod.Status.StartTime.Equal(before.Status.StartTime) {
		t.Error("VMI or pod is another one than before")
	}
	counts := copies(t, mark, ns)
	// Of the last step the pod may have heard twice: that the VMI's label was changed, and
	// that it was put back.
	if n := counts["virtualmachineinstances/a"]; n != len(steps)+2+1 {
		t.Errorf("the VMI was written %d times for %d changes: %v", n, len(steps)+2+1, counts)
	}
	if n := counts["pods/"+launcher]; n < len(steps)+2 || n > len(steps)+3 {
		t.Errorf("the pod was written %d times for %d changes: %v", n, len(steps)+2, counts)
	}
}

// Both pods of a migration follow, and the one that stays knows afterwards which labels
// may be removed, although KubeVirt gave them to it.
func TestLabelsFollowAVMThroughItsMigration(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	operator.Create(t, operator.Movable(c, ns, "a", pool).Annotate(migrationSeconds, "never"))
	source := launcherOf(t, c, ns, "a")
	operator.Relabel(t, c, ns, "a", "Shutdown")
	labelVMI(t, c, ns, "a", map[string]string{tier: "gold"})
	awaitPodLabels(t, c, ns, source, map[string]string{maintenance.LabelStrategy: "Shutdown", tier: "gold"})

	migrate(t, c, ns, "a")
	var target string
	c.Eventually(t, "the migration's target pod exists", func(ctx context.Context) error {
		pods, err := c.Kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: virtv1.MigrationJobLabel})
		if err == nil && len(pods.Items) != 1 {
			return fmt.Errorf("%d target pods", len(pods.Items))
		}
		if err == nil {
			target = pods.Items[0].Name
		}
		return err
	})
	awaitPodLabels(t, c, ns, target, map[string]string{maintenance.LabelStrategy: "Shutdown", tier: "gold"})
	labelPod(t, c, ns, target, map[string]string{"harvesterhci.io/foreign": "x"})
	operator.Relabel(t, c, ns, "a", "ShutdownAndRestartAfterDisable")
	for _, pod := range []string{source, target} {
		awaitPodLabels(t, c, ns, pod, map[string]string{maintenance.LabelStrategy: "ShutdownAndRestartAfterDisable"})
	}
	operator.AnnotateVMI(t, c, ns, "a", map[string]string{migrationSeconds: "0.1"})
	operator.AwaitRunningOn(t, c, ns, "a", pool.Host(1))
	c.Eventually(t, "the source pod has ended", func(ctx context.Context) error {
		pod, err := c.Kube.CoreV1().Pods(ns).Get(ctx, source, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("its phase is %s", pod.Status.Phase)
		}
		return err
	})

	mark := c.Audit(t, "drydock")
	labelVMI(t, c, ns, "a", map[string]string{tier: ""})
	operator.Relabel(t, c, ns, "a", "")
	awaitPodLabels(t, c, ns, target, map[string]string{maintenance.LabelStrategy: "", tier: "", "harvesterhci.io/foreign": "x"})
	if counts := copies(t, mark, ns); counts["pods/"+source] > 0 {
		t.Errorf("the pod that has ended was written as well: %v", counts)
	}
}

// What is being deleted is left in peace, and so is a VMI that has only the name of a
// VM.
func TestLabelsOfWhatIsGoingAreLeftAlone(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 1)
	operator.Create(t, operator.Movable(c, ns, "going", pool).Annotate("sim.drydock.dev/shutdown-seconds", "never").Change(func(vm *virtv1.VirtualMachine) {
		grace := int64(600)
		vm.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
	}), operator.Movable(c, ns, "b", pool))
	launcher := launcherOf(t, c, ns, "going")
	deleteVM(t, c, ns, "going")
	c.AwaitVMI(t, ns, "going", "being deleted", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.DeletionTimestamp != nil })
	mark := c.Audit(t, "drydock")

	operator.Relabel(t, c, ns, "going", "Shutdown")
	labelVMI(t, c, ns, "going", map[string]string{tier: "gold"})
	operator.Relabel(t, c, ns, "b", "Shutdown")
	awaitPodLabels(t, c, ns, launcherOf(t, c, ns, "b"), map[string]string{maintenance.LabelStrategy: "Shutdown"})
	if counts := copies(t, mark, ns); counts["virtualmachineinstances/going"] > 0 || counts["pods/"+launcher] > 0 {
		t.Errorf("something that is being deleted was written: %v", counts)
	}
	operator.AnnotateVMI(t, c, ns, "going", map[string]string{"sim.drydock.dev/shutdown-seconds": "0"})
}

// The truth is the VM: a label that was set a moment before the request, on a VM that
// was started without one, stops the VM and moves nothing; one that was taken away
// moves it.
func TestALabelChangedRightBeforeTheRequestIsObeyed(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t, operator.Movable(c, ns, "set", pool), operator.Movable(c, ns, "changed", pool).Strategy("Migrate"), operator.Movable(c, ns, "removed", pool).Strategy("Shutdown"))
	launchers := map[string]string{}
	for _, name := range []string{"set", "changed", "removed"} {
		launchers[name] = launcherOf(t, c, ns, name)
	}
	histories := map[string]*cluster.History[*virtv1.VirtualMachine]{"set": c.RecordVM(t, ns, "set"), "changed": c.RecordVM(t, ns, "changed"), "removed": c.RecordVM(t, ns, "removed")}
	mark := c.Audit(t, "drydock")

	for name, strategy := range map[string]string{"set": "Shutdown", "changed": "ShutdownAndRestartAfterDisable", "removed": ""} {
		operator.Relabel(t, c, ns, name, strategy)
	}
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	for _, name := range []string{"set", "changed"} {
		c.AwaitNoVMI(t, ns, name)
		if got := runs(histories[name].To(t, operator.GetVM(t, c, ns, name))); !slices.Equal(got, []string{"Always", "Halted"}) {
			t.Errorf("%s: its run strategies were %v, want to be stopped once", name, got)
		}
		if list := migrationsOf(t, c, ns, name); len(list) > 0 {
			t.Errorf("%s was migrated", name)
		}
		if list := evictionsOf(mark.Requests(t), ns, launchers[name]); len(list) > 0 {
			t.Errorf("the launcher of %s was evicted: %v", name, list)
		}
	}
	operator.AwaitRunningOn(t, c, ns, "removed", other)
	awaitPodLabels(t, c, ns, launcherOf(t, c, ns, "removed"), map[string]string{maintenance.LabelStrategy: ""})
	never(t, "a VM without a label was stopped", histories["removed"].To(t, operator.GetVM(t, c, ns, "removed")), halted)
}

// A front-end that saves the whole VM without the label takes it away: from VMI and pod
// as well, and with it the restart of a VM that is off.
func TestAFullUpdateWithoutTheLabelTakesItAwayEverywhere(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t, operator.Movable(c, ns, "runs", pool).On(pool.Host(1)).Strategy("ShutdownAndRestartAfterDisable"),
		operator.Movable(c, ns, "off", pool).Strategy("ShutdownAndRestartAfterDisable"))
	launcher := launcherOf(t, c, ns, "runs")
	awaitPodLabels(t, c, ns, launcher, map[string]string{maintenance.LabelStrategy: "ShutdownAndRestartAfterDisable"})
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	c.AwaitVM(t, ns, "off", "a marker", operator.HasMarker)

	for _, name := range []string{"runs", "off"} {
		c.Eventually(t, name+" is saved without its label", func(ctx context.Context) error {
			vm := operator.GetVM(t, c, ns, name)
			delete(vm.Labels, maintenance.LabelStrategy)
			delete(vm.Spec.Template.ObjectMeta.Labels, maintenance.LabelStrategy)
			_, err := c.KubeVirt.KubevirtV1().VirtualMachines(ns).Update(ctx, vm, metav1.UpdateOptions{})
			return err
		})
	}
	gone := map[string]string{maintenance.LabelStrategy: ""}
	awaitVMILabels(t, c, ns, "runs", gone)
	awaitPodLabels(t, c, ns, launcher, gone)
	if vm := operator.AwaitForgotten(t, c, ns, "off"); !halted(vm) {
		t.Errorf("the VM without label runs again: %s", runStrategy(vm))
	}
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	awaitPass(t, c, host)
	if vm := operator.GetVM(t, c, ns, "off"); !halted(vm) {
		t.Errorf("the VM without label was started on leaving: %s", runStrategy(vm))
	}
}
