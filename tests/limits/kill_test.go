package limits

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
	"github.com/drydock-dev/drydock/tests/operator"
)

// The manager is killed in each phase, on the way in and out: whoever comes next goes
// on where it was. After each of its writes it is
// killed in tests/faults; with others beside it in standby_test.go.
func TestAManagerThatIsKilledInAnyPhaseIsSucceededWithoutATrace(t *testing.T) {
	c, m := drydock(t)
	inEachPhase(t, c, func(string) { m.succeed(t, c) })
}

// inEachPhase plays a maintenance in which the manager is succeeded in each phase, and
// checks that it is as if nothing had happened to it.
func inEachPhase(t *testing.T, c *cluster.Cluster, succeed func(phase string)) {
	t.Helper()
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t,
		operator.Movable(c, ns, "a", pool).Strategy("ShutdownAndRestartAfterEnable"),
		operator.Movable(c, ns, "b", pool).Strategy("ShutdownAndRestartAfterDisable").Annotate("sim.drydock.dev/shutdown-seconds", "never").
			Change(func(vm *virtv1.VirtualMachine) {
				grace := int64(600)
				vm.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
			}),
		operator.Movable(c, ns, "c", pool),
		operator.Movable(c, ns, "d", pool).Strategy("Shutdown"))
	guarded(t, c, ns, "web", host)
	history := c.RecordNode(t, host)
	vms, vmis := map[string]*cluster.History[*virtv1.VirtualMachine]{}, map[string]*cluster.History[*virtv1.VirtualMachineInstance]{}
	for _, name := range []string{"a", "b", "c", "d"} {
		vms[name], vmis[name] = c.RecordVM(t, ns, name), c.RecordVMI(t, ns, name)
	}

	release := operator.HoldBefore(t, c, host, maintenance.PhaseDraining)
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseValidating)
	succeed("Validating")
	release()
	operator.AwaitMessage(t, c, host, "held by PDB "+ns+"/web")
	c.AwaitVM(t, ns, "b", "stopped", operator.HasMarker)
	succeed("Draining")
	allow(t, c, ns, "web")
	operator.AwaitPhase(t, c, host, maintenance.PhaseEvacuating)
	succeed("Evacuating")
	operator.AnnotateVMI(t, c, ns, "b", map[string]any{"sim.drydock.dev/shutdown-seconds": "0"})
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	succeed("Completed")
	operator.AwaitRunningOn(t, c, ns, "a", other)
	operator.AwaitForgotten(t, c, ns, "a")

	// On the way out: before the node is schedulable, and while a VM is being started.
	release = holdCordoned(t, c, host)
	quota(t, c, ns, 2)
	operator.Leave(t, c, host)
	c.AwaitNode(t, host, "leaving", func(n *corev1.Node) bool { return n.Annotations[maintenance.AnnotationStatus] == "" })
	succeed("leaving")
	release()
	node := operator.AwaitOut(t, c, host)
	c.AwaitVM(t, ns, "b", "being started", func(vm *virtv1.VirtualMachine) bool { return !halted(vm) })
	succeed("starting VMs")
	unquota(t, c, ns)
	operator.AwaitRunningOn(t, c, ns, "b", host, other)
	operator.AwaitForgotten(t, c, ns, "b")

	schedulable := func(n *corev1.Node) bool { return !n.Spec.Unschedulable }
	if got := changes(until(t, history, node), schedulable); !slices.Equal(got, []bool{true, false, true}) {
		t.Errorf("the node was schedulable: %v", got)
	}
	for name, want := range map[string][]bool{"a": {false, true, false}, "b": {false, true, false}, "c": {false}, "d": {false, true}} {
		vm := operator.AwaitForgotten(t, c, ns, name)
		if got := changes(until(t, vms[name], vm), halted); !slices.Equal(got, want) {
			t.Errorf("%s: it was halted: %v, want %v", name, got, want)
		}
		uid := func(vmi *virtv1.VirtualMachineInstance) types.UID { return vmi.UID }
		if got := changes(vmis[name].Versions(), uid); len(got) > (len(want)+1)/2 {
			t.Errorf("%s: it had the instances %v", name, got)
		}
	}
	for _, reason := range []string{"MaintenanceDraining", "MaintenanceEvacuating", "MaintenanceCompleted"} {
		told := 0
		for _, event := range c.Events(t, "Node", "", host) {
			if event.Reason == reason {
				told += max(1, int(event.Count))
			}
		}
		// One that was not sent yet when the manager was killed is lost.
		if told > 1 {
			t.Errorf("the event %s was told %d times", reason, told)
		}
	}
}

// changes lists the values that something took, one after the other.
func changes[T metav1.Object, V comparable](versions []T, value func(T) V) []V {
	var values []V
	for _, version := range versions {
		if v := value(version); len(values) == 0 || values[len(values)-1] != v {
			values = append(values, v)
		}
	}
	return values
}

// until returns the recorded versions up to an object that was read later.
func until[T metav1.Object](t *testing.T, h *cluster.History[T], last T) []T {
	t.Helper()
	return h.Until(t, "version "+last.GetResourceVersion()+" of "+last.GetName(), func(version T) bool {
		return version.GetUID() == last.GetUID() && version.GetResourceVersion() == last.GetResourceVersion()
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

// holdCordoned keeps a node that is cordoned from being uncordoned.
func holdCordoned(t *testing.T, c *cluster.Cluster, node string) (release func()) {
	t.Helper()
	return c.Refuse(t, "nodes", node, "has(object.spec.unschedulable) && object.spec.unschedulable", func(ctx context.Context) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(`{"spec":{"unschedulable":null}}`), dryRun)
		return err
	})
}

var dryRun = metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
