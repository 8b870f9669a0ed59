package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// patchStatus merges a change into the status of a VM, as KubeVirt's own parts do.
func patchStatus(t *testing.T, c *cluster.Cluster, namespace, name string, status map[string]any) {
	t.Helper()
	operator.Patch(t, map[string]any{"status": status}, func(ctx context.Context, raw []byte) error {
		_, err := c.KubeVirt.KubevirtV1().VirtualMachines(namespace).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{}, "status")
		return err
	})
}

// KubeVirt refuses to change a VM while a snapshot or restore of it is in progress, so a
// stop waits for it by name. A start request that was left over is not its owner's wish,
// a paused start is.
func TestAStopWaitsForSnapshotsAndIsNotUndoneByALeftoverRequest(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	names := []string{"leftover", "paused"}
	for _, name := range names {
		operator.Movable(c, ns, name, pool).Strategy("ShutdownAndRestartAfterDisable").Submit(t)
	}
	for _, name := range names {
		operator.AwaitRunningOn(t, c, ns, name, host)
	}
	patchStatus(t, c, ns, "leftover", map[string]any{"snapshotInProgress": "snap-1"})
	patchStatus(t, c, ns, "paused", map[string]any{"restoreInProgress": "restore-1"})
	histories := map[string]*cluster.History[*virtv1.VirtualMachine]{"leftover": c.RecordVM(t, ns, "leftover"), "paused": c.RecordVM(t, ns, "paused")}

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, ns+"/leftover is waiting for snapshot snap-1 to end", ns+"/paused is waiting for restore restore-1 to end")
	for _, name := range names {
		if vm := operator.GetVM(t, c, ns, name); halted(vm) || operator.HasMarker(vm) {
			t.Errorf("%s was not waited for: %s", name, brief(vm))
		}
	}
	patchStatus(t, c, ns, "leftover", map[string]any{"snapshotInProgress": nil})
	patchStatus(t, c, ns, "paused", map[string]any{"restoreInProgress": nil})
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)

	patchStatus(t, c, ns, "leftover", map[string]any{"stateChangeRequests": []any{map[string]any{"action": virtv1.StartRequest}}})
	histories["leftover"].Until(t, "KubeVirt has served the request", func(vm *virtv1.VirtualMachine) bool {
		return operator.HasMarker(vm) && !halted(vm)
	})
	vm := c.AwaitVM(t, ns, "leftover", "halted again", halted)
	if operator.Marker(vm) != host {
		t.Errorf("the VM that is halted again has marker %q", operator.Marker(vm))
	}
	c.AwaitNoVMI(t, ns, "leftover")

	if err := c.KubeVirt.KubevirtV1().VirtualMachines(ns).Start(t.Context(), "paused", &virtv1.StartOptions{Paused: true}); err != nil {
		t.Fatal(err)
	}
	operator.AwaitForgotten(t, c, ns, "paused")
	operator.AwaitEvent(t, c, "VirtualMachine", ns, "paused", "MaintenanceStarted", "by somebody else")
	operator.AwaitMessage(t, c, host, "started on leaving: "+ns+"/leftover")

	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	operator.AwaitRunningOn(t, c, ns, "leftover", pool.Hosts...)
	operator.AwaitForgotten(t, c, ns, "leftover")
	for name, want := range map[string][]string{"leftover": {"Always", "Halted", "Always", "Halted", "Always"}, "paused": {"Always", "Halted", "Always"}} {
		if got := runs(histories[name].To(t, operator.GetVM(t, c, ns, name))); !slices.Equal(got, want) {
			t.Errorf("%s: the run strategies were %v, want %v", name, got, want)
		}
	}
}

// Completed is not the end of watching: whatever lets a VM onto the cordoned node, it is
// told and has to leave.
func TestAVMThatArrivesInMaintenanceIsDrainedAgain(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Request(t, c, host)
	first := operator.RecordOf(t, operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted))
	history := c.RecordNode(t, host)
	eventually(t, c, "another second has begun, as the record counts", func() bool { return time.Since(first.Started.Time) >= time.Second })
	operator.Movable(c, ns, "late", pool).Annotate(migrationSeconds, "0.2").Change(func(vm *virtv1.VirtualMachine) {
		vm.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
	}).Submit(t)
	event := operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceVMArrived", "a VM arrived on the node")
	if event.Type != corev1.EventTypeWarning {
		t.Errorf("the arrival is told as %s", event.Type)
	}
	operator.AwaitRunningOn(t, c, ns, "late", other)
	node := operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	if again := operator.RecordOf(t, node); again.ID != first.ID || !first.Started.Before(&again.Started) {
		t.Errorf("the record was %+v and is %+v, want the same maintenance with a new clock", first, again)
	}
	var phases []maintenance.Phase
	for _, version := range history.To(t, node) {
		if phase := maintenance.PhaseOf(version); len(phases) == 0 || phases[len(phases)-1] != phase {
			phases = append(phases, phase)
		}
		if draining := maintenance.PhaseOf(version) != maintenance.PhaseCompleted; draining != (version.Annotations[maintenance.AnnotationStatus] == maintenance.StatusRunning) {
			t.Errorf("the node shows %s", brief(version))
		}
	}
	if want := []maintenance.Phase{maintenance.PhaseCompleted, maintenance.PhaseDraining, maintenance.PhaseEvacuating, maintenance.PhaseCompleted}; !slices.Equal(phases, want) {
		t.Errorf("the phases were %v, want %v", phases, want)
	}
}

// A node's name may be four times as long as the value of a label, and as long as an
// event's.
func TestANodeWithALongNameIsDrained(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns := c.Namespace(t)
	name := ns
	for len(name) < 253 {
		name += ".rack-7"
	}
	name = name[:252] + "7"
	c.Node(t, name)
	pod, err := c.Kube.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "main", Image: "main"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	operator.Request(t, c, name)
	operator.AwaitPhase(t, c, name, maintenance.PhaseCompleted)
	awaitPodGone(t, c, pod)
	for _, reason := range []string{"MaintenanceRequested", "MaintenanceDraining", "MaintenanceCompleted"} {
		operator.AwaitEvent(t, c, "Node", "", name, reason)
	}
	awaitPass(t, c, name)
	operator.Leave(t, c, name)
	if node := operator.AwaitOut(t, c, name); node.Spec.Unschedulable {
		t.Error("the node has left and is still cordoned")
	}
	operator.AwaitEvent(t, c, "Node", "", name, "MaintenanceLeft")
}
