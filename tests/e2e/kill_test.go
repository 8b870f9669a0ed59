package e2e

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
)

// The manager is killed in each phase, on the way in and out: whoever comes next goes
// on where it was. After each write it is killed elsewhere, see the soak test.
func TestAManagerThatIsKilledInAnyPhaseIsSucceededWithoutATrace(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	create(t,
		movable(c, ns, "a", pool).Strategy("ShutdownAndRestartAfterEnable"),
		movable(c, ns, "b", pool).Strategy("ShutdownAndRestartAfterDisable").Annotate("sim.drydock.dev/shutdown-seconds", "never").
			Change(func(vm *virtv1.VirtualMachine) {
				grace := int64(600)
				vm.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
			}),
		movable(c, ns, "c", pool),
		movable(c, ns, "d", pool).Strategy("Shutdown"))
	guarded(t, c, ns, "web", host)
	history := c.RecordNode(t, host)
	vms, vmis := map[string]*cluster.History[*virtv1.VirtualMachine]{}, map[string]*cluster.History[*virtv1.VirtualMachineInstance]{}
	for _, name := range []string{"a", "b", "c", "d"} {
		vms[name], vmis[name] = c.RecordVM(t, ns, name), c.RecordVMI(t, ns, name)
	}

	release := holdBefore(t, c, host, maintenance.PhaseDraining)
	request(t, c, host)
	awaitPhase(t, c, host, maintenance.PhaseValidating)
	restart(t, c)
	release()
	awaitMessage(t, c, host, "held by PDB "+ns+"/web")
	c.AwaitVM(t, ns, "b", "stopped", hasMarker)
	restart(t, c)
	unguard(t, c, ns, "web")
	awaitPhase(t, c, host, maintenance.PhaseEvacuating)
	restart(t, c)
	annotateVMI(t, c, ns, "b", map[string]string{"sim.drydock.dev/shutdown-seconds": "0"})
	awaitPhase(t, c, host, maintenance.PhaseCompleted)
	restart(t, c)
	awaitRunningOn(t, c, ns, "a", other)
	awaitForgotten(t, c, ns, "a")

	// On the way out: before the node is schedulable, and while a VM is being started.
	release = holdCordoned(t, c, host)
	quota(t, c, ns, 2)
	leave(t, c, host)
	c.AwaitNode(t, host, "leaving", func(n *corev1.Node) bool { return n.Annotations[maintenance.AnnotationStatus] == "" })
	restart(t, c)
	release()
	node := awaitOut(t, c, host)
	c.AwaitVM(t, ns, "b", "being started", func(vm *virtv1.VirtualMachine) bool { return !halted(vm) })
	restart(t, c)
	unquota(t, c, ns)
	awaitRunningOn(t, c, ns, "b", host, other)
	awaitForgotten(t, c, ns, "b")

	if got := cordons(versionsTo(t, history, node)); !slices.Equal(got, []bool{false, true, false}) {
		t.Errorf("the node was cordoned and uncordoned: %v", got)
	}
	for name, want := range map[string][]string{
		"a": {"Always", "Halted", "Always"}, "b": {"Always", "Halted", "Always"}, "c": {"Always"}, "d": {"Always", "Halted"},
	} {
		vm := awaitForgotten(t, c, ns, name)
		if got := runs(versionsTo(t, vms[name], vm)); !slices.Equal(got, want) {
			t.Errorf("%s: its run strategies were %v, want %v", name, got, want)
		}
		if got := len(instances(vmis[name].Versions())); got > (len(want)+1)/2 {
			t.Errorf("%s: it had %d instances", name, got)
		}
	}
	for _, reason := range []string{"MaintenanceDraining", "MaintenanceEvacuating", "MaintenanceCompleted"} {
		if got := countEvents(t, c, "Node", "", host, reason); got > 1 {
			t.Errorf("the event %s was told %d times", reason, got)
		}
	}
}

// unguard lets the budget's pod go.
func unguard(t *testing.T, c *cluster.Cluster, namespace, name string) {
	t.Helper()
	patch(t, map[string]any{"spec": map[string]any{"maxUnavailable": 1}}, func(ctx context.Context, raw []byte) error {
		_, err := c.Kube.PolicyV1().PodDisruptionBudgets(namespace).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
}

// quota allows so many VMIs in a namespace: KubeVirt then goes on trying to start the
// next one.
func quota(t *testing.T, c *cluster.Cluster, namespace string, vmis int64) {
	t.Helper()
	_, err := c.Kube.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "vmis"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			"count/virtualmachineinstances.kubevirt.io": *resource.NewQuantity(vmis, resource.DecimalSI),
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "the quota is in force", func(ctx context.Context) error {
		quota, err := c.Kube.CoreV1().ResourceQuotas(namespace).Get(ctx, "vmis", metav1.GetOptions{})
		if err == nil && len(quota.Status.Used) == 0 {
			err = errors.New("it counts nothing yet")
		}
		return err
	})
}

func unquota(t *testing.T, c *cluster.Cluster, namespace string) {
	t.Helper()
	if err := c.Kube.CoreV1().ResourceQuotas(namespace).Delete(t.Context(), "vmis", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
