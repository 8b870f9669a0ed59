package e2e

import (
	"slices"
	"testing"

	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"

	"github.com/drydock-dev/drydock/tests/operator"
)

// A human's own hand wins, and is never fought against.

func TestAnUncordonDuringTheDrainStopsItUntilAskedAgain(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t, big(t, c, ns, "big", pool))
	history := c.RecordNode(t, host)
	operator.Request(t, c, host)
	awaitStuck(t, c, ns, "big", host)
	first := operator.RecordOf(t, getNode(t, c, host))

	uncordon(t, c, host)
	node := operator.AwaitMessage(t, c, host, "uncordoned by somebody else")
	if condition := maintenance.Condition(node); condition.Status != "True" || condition.Reason != string(maintenance.PhaseError) {
		t.Errorf("the condition is %s/%s, want Error/True", condition.Reason, condition.Status)
	}
	if got := node.Annotations[maintenance.AnnotationStatus]; got != maintenance.StatusRunning {
		t.Errorf("maintain-status is %q, want %q: the node is still engaged", got, maintenance.StatusRunning)
	}
	awaitWithdrawn(t, c, ns, "big")
	audit := c.Audit(t, "drydock")
	awaitPass(t, c, host)
	if got := evictions(t, audit, ns); len(got) > 0 {
		t.Errorf("evictions after the uncordon: %v", got)
	}
	node = getNode(t, c, host)
	if got := cordons(history.To(t, node)); !slices.Equal(got, []bool{false, true, false}) {
		t.Errorf("the node was cordoned and uncordoned: %v", got)
	}

	// Asked again, it goes on where it was, with a new clock.
	operator.Annotate(t, c, other, map[string]string{"sim.drydock.dev/memory": "64Gi"})
	operator.Request(t, c, host)
	node = operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	second := operator.RecordOf(t, node)
	if second.ID != first.ID || second.Started.Before(&first.Started) || second.Halted != "" {
		t.Errorf("the record was %+v and is %+v: it should be the same maintenance with a later start", first, second)
	}
	operator.AwaitRunningOn(t, c, ns, "big", other)
	operator.Leave(t, c, host)
	node = operator.AwaitOut(t, c, host)
	if got := cordons(history.To(t, node)); !slices.Equal(got, []bool{false, true, false, true, false}) {
		t.Errorf("the node was cordoned and uncordoned: %v", got)
	}
}

// Who cordoned a node before maintenance and uncordons it meanwhile has changed their
// mind: resumed and left, it is schedulable.
func TestAnUncordonTakesBackACordonFromBefore(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	guarded(t, c, ns, "web", host)
	setUnschedulable(t, c, host, true)
	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "held by PDB "+ns+"/web")
	uncordon(t, c, host)
	operator.AwaitMessage(t, c, host, "uncordoned by somebody else")
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseDraining)
	c.AwaitNode(t, host, "cordoned again", unschedulable)
	operator.Leave(t, c, host)
	if node := operator.AwaitOut(t, c, host); node.Spec.Unschedulable {
		t.Error("the node is cordoned, although its administrator had uncordoned it")
	}
}

// Whoever cordons a node whose drain an uncordon has ended means something else by it.
func TestACordonAfterAnUncordonIsKept(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	guarded(t, c, ns, "web", host)
	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "held by PDB "+ns+"/web")
	uncordon(t, c, host)
	operator.AwaitMessage(t, c, host, "uncordoned by somebody else")
	setUnschedulable(t, c, host, true)
	operator.Leave(t, c, host)
	if node := operator.AwaitOut(t, c, host); !node.Spec.Unschedulable {
		t.Error("leaving undid the cordon of somebody else")
	}
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceLeft", "somebody else has cordoned it since")
}

func TestAnUncordonInMaintenanceIsToldOnceAndChangesNothing(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t, operator.Movable(c, ns, "later", pool).Strategy("ShutdownAndRestartAfterDisable"))
	history := c.RecordNode(t, host)
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)

	uncordon(t, c, host)
	operator.AwaitMessage(t, c, host, "was uncordoned by somebody else")
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceUncordoned")
	awaitPass(t, c, host)
	awaitPass(t, c, host)
	if got := countEvents(t, c, "Node", "", host, "MaintenanceUncordoned"); got != 1 {
		t.Errorf("the uncordon was told %d times", got)
	}
	node := getNode(t, c, host)
	if maintenance.PhaseOf(node) != maintenance.PhaseCompleted || node.Annotations[maintenance.AnnotationStatus] != maintenance.StatusCompleted {
		t.Errorf("the node shows %s", brief(node))
	}
	if vm := operator.GetVM(t, c, ns, "later"); operator.Marker(vm) != host || !halted(vm) {
		t.Errorf("the stopped VM shows %s", brief(vm))
	}

	operator.Leave(t, c, host)
	node = operator.AwaitOut(t, c, host)
	operator.AwaitRunningOn(t, c, ns, "later", pool.Hosts...)
	operator.AwaitForgotten(t, c, ns, "later")
	if got := cordons(history.To(t, node)); !slices.Equal(got, []bool{false, true, false}) {
		t.Errorf("the node was cordoned and uncordoned: %v", got)
	}
}

func TestAskingAgainChangesNothingAndForceAppliesToWhatIsNotStoppedYet(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t,
		operator.Movable(c, ns, "stopped", pool).Strategy("ShutdownAndRestartAfterDisable").Annotate("sim.drydock.dev/shutdown-seconds", "never").
			Change(func(vm *virtv1.VirtualMachine) {
				grace := int64(600)
				vm.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
			}),
		c.VM(ns, "stuck").On(host).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyExternal))
	operator.Request(t, c, host)
	c.AwaitVM(t, ns, "stopped", "stopped with a marker", operator.HasMarker)
	c.AwaitVMI(t, ns, "stuck", "marked for the external controller", func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmi.Status.EvacuationNodeName == host
	})
	// It stops being movable after the cordon: named and waited for, not stopped.
	operator.AnnotateVMI(t, c, ns, "stuck", map[string]string{immovable: passthrough})
	before := operator.AwaitMessage(t, c, host, ns+"/stuck cannot be live-migrated", "shutting down, up to 600 s ("+ns+"/stopped)")

	operator.Request(t, c, host)
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceRequestIgnored")
	after := c.AwaitNode(t, host, "the request is consumed", noRequest)
	if a, b := operator.RecordOf(t, before), operator.RecordOf(t, after); a.ID != b.ID || !a.Started.Equal(&b.Started) || b.Forced {
		t.Errorf("asking again changed the record from %+v to %+v", a, b)
	}
	if maintenance.PhaseOf(after) != maintenance.PhaseOf(before) {
		t.Errorf("asking again changed the phase from %s to %s", maintenance.PhaseOf(before), maintenance.PhaseOf(after))
	}
	awaitPass(t, c, host)
	if vm := operator.GetVM(t, c, ns, "stuck"); halted(vm) {
		t.Error("a VM that cannot move any more was stopped without force")
	}

	history := c.RecordVM(t, ns, "stuck")
	operator.Annotate(t, c, host, map[string]string{maintenance.AnnotationForced: "true"})
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceForced")
	c.AwaitVM(t, ns, "stuck", "stopped", halted)
	c.AwaitNoVMI(t, ns, "stuck")
	operator.AnnotateVMI(t, c, ns, "stopped", map[string]string{"sim.drydock.dev/shutdown-seconds": "0"})
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	if !noRequest(getNode(t, c, host)) {
		t.Error("the force annotation was not consumed")
	}
	never(t, "a VM stopped by force has a marker", history.To(t, operator.GetVM(t, c, ns, "stuck")), operator.HasMarker)
	if vm := operator.GetVM(t, c, ns, "stopped"); operator.Marker(vm) != host {
		t.Errorf("the VM that was stopped before force has marker %q, want %q", operator.Marker(vm), host)
	}

	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	operator.AwaitRunningOn(t, c, ns, "stopped", pool.Hosts...)
	if vm := operator.AwaitForgotten(t, c, ns, "stuck"); !halted(vm) {
		t.Errorf("the VM stopped by force shows %s", brief(vm))
	}
}

// Who asks again after an uncordon means the node to be kept empty.
func TestAskingAgainAfterAnUncordonInMaintenanceCordons(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	host := c.Pool(t, 2).Host(0)
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	uncordon(t, c, host)
	operator.AwaitMessage(t, c, host, "was uncordoned by somebody else")
	operator.Request(t, c, host)
	c.AwaitNode(t, host, "cordoned again", unschedulable)
}

// Some remove all annotations to get out of a maintenance. The condition alone holds
// nothing: what was asked of KubeVirt is withdrawn, and who cordoned nobody knows.
func TestRemovingEverythingByHandEndsTheMaintenance(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t, c.VM(ns, "external").On(host).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyExternal),
		operator.Movable(c, ns, "later", pool).Strategy("ShutdownAndRestartAfterDisable"))
	operator.Request(t, c, host)
	c.AwaitVMI(t, ns, "external", "marked", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.Status.EvacuationNodeName == host })
	c.AwaitNoVMI(t, ns, "later")

	operator.PatchNode(t, c, host, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		maintenance.AnnotationStatus: nil, maintenance.AnnotationNodeRecord: nil, maintenance.AnnotationProgress: nil,
	}}})
	node := operator.AwaitOut(t, c, host)
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceLeft", "removed by hand", "kubectl uncordon "+host)
	if !node.Spec.Unschedulable {
		t.Error("a node that anybody may have cordoned was uncordoned")
	}
	c.AwaitVMI(t, ns, "external", "not marked any more", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.Status.EvacuationNodeName == "" })
	operator.AwaitRunningOn(t, c, ns, "later", pool.Hosts...)
}
