package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
	"github.com/drydock-dev/drydock/tests/webhooks"
)

const refusal = "metadata.labels[harvesterhci.io/maintain-mode-strategy]: invalid maintenance mode strategy: foobar"

func strategies(vm *virtv1.VirtualMachine) [2]string {
	return [2]string{vm.Labels[maintenance.LabelStrategy], vm.Spec.Template.ObjectMeta.Labels[maintenance.LabelStrategy]}
}

func TestAMissingStrategyIsStoredAsMigrate(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns, pool := c.Namespace(t), c.Pool(t, 1)
	vm := operator.Movable(c, ns, "a", pool).Create(t)
	if got := strategies(vm); got != [2]string{"Migrate", "Migrate"} {
		t.Errorf("stored with %q in labels and template", got)
	}
	awaitCopies(t, c, ns, "a", "Migrate")
	operator.Relabel(t, c, ns, "a", "")
	if got := strategies(operator.GetVM(t, c, ns, "a")); got != [2]string{"Migrate", "Migrate"} {
		t.Errorf("after the label was removed, stored with %q", got)
	}
}

func TestAStrategyIsStoredAsGivenAndReachesThePod(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns, pool := c.Namespace(t), c.Pool(t, 1)
	vm := operator.Movable(c, ns, "a", pool).Strategy("Shutdown").Create(t)
	if got := strategies(vm); got != [2]string{"Shutdown", "Shutdown"} {
		t.Errorf("stored with %q in labels and template", got)
	}
	awaitCopies(t, c, ns, "a", "Shutdown")
}

// awaitCopies waits until VMI and launcher pod carry the strategy.
func awaitCopies(t *testing.T, c *cluster.Cluster, namespace, name, strategy string) {
	t.Helper()
	c.AwaitVMI(t, namespace, name, "the VMI has strategy "+strategy, func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmi.Labels[maintenance.LabelStrategy] == strategy
	})
	c.Eventually(t, "the launcher pod has strategy "+strategy, func(context.Context) error {
		pod := launcherOf(t, c, namespace, name)
		if got := pod.Labels[maintenance.LabelStrategy]; got != strategy {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}

func launcherOf(t *testing.T, c *cluster.Cluster, namespace, name string) *corev1.Pod {
	t.Helper()
	pods, err := c.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "kubevirt.io=virt-launcher"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range pods.Items {
		pod := &pods.Items[n]
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.Name == name && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && pod.DeletionTimestamp == nil {
			return pod
		}
	}
	t.Fatalf("VM %s/%s has no launcher", namespace, name)
	return nil
}

func TestAWrongStrategyIsRefusedHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns := c.Namespace(t)
	client := c.KubeVirt.KubevirtV1().VirtualMachines(ns)
	off := func(name string) *cluster.VM { return c.VM(ns, name).RunStrategy(virtv1.RunStrategyHalted) }
	off("stored").Strategy("Shutdown").Create(t)
	patch := func(kind types.PatchType, body string, options metav1.PatchOptions) error {
		_, err := client.Patch(t.Context(), "stored", kind, []byte(body), options)
		return err
	}
	const key = maintenance.LabelStrategy
	escaped := strings.ReplaceAll(key, "/", "~1")
	for name, write := range map[string]func() error{
		"created": func() error {
			_, err := client.Create(t.Context(), off("new").Strategy("foobar").Object(), metav1.CreateOptions{})
			return err
		},
		"created in a dry run": func() error {
			_, err := client.Create(t.Context(), off("new").Strategy("foobar").Object(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		},
		"updated": func() error {
			// KubeVirt's controller still writes it.
			return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				vm := operator.GetVM(t, c, ns, "stored")
				vm.Labels[key] = "foobar"
				_, err := client.Update(t.Context(), vm, metav1.UpdateOptions{})
				return err
			})
		},
		"merged": func() error {
			return patch(types.MergePatchType, `{"metadata":{"labels":{"`+key+`":"foobar"}}}`, metav1.PatchOptions{})
		},
		"by a JSON patch": func() error {
			return patch(types.JSONPatchType, `[{"op":"replace","path":"/metadata/labels/`+escaped+`","value":"foobar"}]`, metav1.PatchOptions{})
		},
		"applied": func() error {
			force := true
			return patch(types.ApplyPatchType, applied(t, off("stored").Strategy("foobar")), metav1.PatchOptions{FieldManager: "gitops", Force: &force})
		},
	} {
		err := write()
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), refusal+"; valid values are Migrate, ShutdownAndRestartAfterEnable, ShutdownAndRestartAfterDisable, Shutdown") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := strategies(operator.GetVM(t, c, ns, "stored")); got != [2]string{"Shutdown", "Shutdown"} {
		t.Errorf("after all that it is stored with %q", got)
	}
}

// applied is a manifest as somebody would keep it in a file.
func applied(t *testing.T, vm *cluster.VM) string {
	t.Helper()
	object := vm.Object()
	object.TypeMeta = metav1.TypeMeta{APIVersion: virtv1.GroupVersion.String(), Kind: "VirtualMachine"}
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "status")
	if raw, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Who applies a manifest without the label, again and again, changes nothing by it.
func TestApplyingAgainAManifestWithoutTheLabelChangesNothing(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns := c.Namespace(t)
	client := c.KubeVirt.KubevirtV1().VirtualMachines(ns)
	manifest := applied(t, c.VM(ns, "a").RunStrategy(virtv1.RunStrategyHalted))
	apply := func() *virtv1.VirtualMachine {
		vm, err := client.Patch(t.Context(), "a", types.ApplyPatchType, []byte(manifest), metav1.PatchOptions{FieldManager: "gitops"})
		if err != nil {
			t.Fatal(err)
		}
		return vm
	}
	first := apply()
	second := apply()
	if got := strategies(second); got != [2]string{"Migrate", "Migrate"} {
		t.Errorf("stored with %q", got)
	}
	if first.Generation != second.Generation {
		t.Errorf("generation %d became %d", first.Generation, second.Generation)
	}
	operator.Relabel(t, c, ns, "a", "Shutdown")
	if got := strategies(apply()); got != [2]string{"Shutdown", "Shutdown"} {
		t.Errorf("what somebody else wrote became %q", got)
	}
}

// outside makes a VM that the webhooks have not seen, as those are that are older.
func outside(t *testing.T, c *cluster.Cluster, namespace string, vms ...*cluster.VM) {
	t.Helper()
	label := func(value any) {
		operator.Patch(t, map[string]any{"metadata": map[string]any{"labels": map[string]any{webhooks.LabelPassedBy: value}}}, func(ctx context.Context, raw []byte) error {
			_, err := c.Kube.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, raw, metav1.PatchOptions{})
			return err
		})
	}
	probe := func(want bool) {
		vm := c.VM(namespace, "probe").Strategy("probe").RunStrategy(virtv1.RunStrategyHalted).Object()
		c.Eventually(t, fmt.Sprintf("admission of namespace %s is %t", namespace, want), func(ctx context.Context) error {
			_, err := c.KubeVirt.KubevirtV1().VirtualMachines(namespace).Create(ctx, vm.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if apierrors.IsInvalid(err) != want {
				return fmt.Errorf("a wrong strategy is answered with %w", err)
			}
			return nil
		})
	}
	label("true")
	probe(false)
	for _, vm := range vms {
		vm.Create(t)
	}
	label(nil)
	probe(true)
}

func TestAnOldWrongStrategyIsTakenForMigrate(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	outside(t, c, ns, operator.Movable(c, ns, "a", pool).Strategy("foobar"))
	operator.Request(t, c, pool.Host(0))
	operator.AwaitPhase(t, c, pool.Host(0), maintenance.PhaseCompleted)
	operator.AwaitRunningOn(t, c, ns, "a", pool.Host(1))
	if got := operator.GetVM(t, c, ns, "a").Labels[maintenance.LabelStrategy]; got != "foobar" {
		t.Errorf("its label became %q", got)
	}
}

func TestWhatIsUnwiseIsWarnedOf(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns := c.Namespace(t)
	l := listen(t, c)
	client := l.KubevirtV1().VirtualMachines(ns)
	outside(t, c, ns, c.VM(ns, "old").Strategy("foobar").RunStrategy(virtv1.RunStrategyHalted))
	create := func(vm *cluster.VM) {
		if _, err := client.Create(t.Context(), vm.Object(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch := func(name, body string) {
		if _, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// The first write, whatever it is about, copies the strategy into the spec.
	patch("old", `{"metadata":{"annotations":{"first":"write"}}}`)
	for _, step := range []struct {
		what  string
		write func()
		warns string
	}{
		{"a shutdown strategy on Manual", func() { create(c.VM(ns, "manual").RunStrategy(virtv1.RunStrategyManual).Strategy("Shutdown")) }, "spec.runStrategy is Manual"},
		{"Migrate and None", func() {
			create(c.VM(ns, "none").RunStrategy(virtv1.RunStrategyHalted).EvictionStrategy(virtv1.EvictionStrategyNone))
		}, "evictionStrategy None"},
		{"something else of that VM", func() { patch("none", `{"metadata":{"annotations":{"a":"b"}}}`) }, ""},
		{"metadata of an old VM", func() { patch("old", `{"metadata":{"annotations":{"a":"b"}}}`) }, ""},
		{"the spec of an old VM", func() { patch("old", `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":7}}}}`) }, `"foobar" is no maintenance mode strategy`},
		{"nothing unwise", func() {
			create(c.VM(ns, "fine").RunStrategy(virtv1.RunStrategyHalted).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate))
		}, ""},
	} {
		l.heard()
		step.write()
		var ours []string
		for _, warning := range l.heard() {
			if strings.Contains(warning, maintenance.LabelStrategy) {
				ours = append(ours, warning)
			}
		}
		if got := strings.Join(ours, "\n"); !strings.Contains(got, step.warns) || step.warns == "" && got != "" {
			t.Errorf("%s: warned with %q, want %q", step.what, got, step.warns)
		}
	}
}
