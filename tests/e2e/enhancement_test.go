package e2e

import (
	"testing"

	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// The five cases of the enhancement's test plan. Each has a VM with the strategy in
// question and one without a label, which is always moved.

func TestAVMOfAfterDisableIsOffUntilTheNodeLeaves(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t, operator.Movable(c, ns, "labelled", pool).Strategy("ShutdownAndRestartAfterDisable"), operator.Movable(c, ns, "unlabelled", pool))
	before := getVMI(t, c, ns, "labelled").UID

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	c.AwaitNoVMI(t, ns, "labelled")
	vm := operator.GetVM(t, c, ns, "labelled")
	if operator.Marker(vm) != host || !halted(vm) {
		t.Errorf("the stopped VM has marker %q and run strategy %s, want %q and Halted", operator.Marker(vm), runStrategy(vm), host)
	}
	operator.AwaitRunningOn(t, c, ns, "unlabelled", other)

	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	// Its own preference brings it back here; Drydock's comes with the webhook of
	// launcher pods.
	if vmi := operator.AwaitRunningOn(t, c, ns, "labelled", host); vmi.UID == before {
		t.Error("the VM was never stopped")
	}
	vm = operator.AwaitForgotten(t, c, ns, "labelled")
	if got := runStrategy(vm); got != "Always" {
		t.Errorf("after the cycle the run strategy is %s, want Always", got)
	}
	if migrations := migrationsOf(t, c, ns, "labelled"); len(migrations) > 0 {
		t.Errorf("a VM that is shut down was migrated: %v", migrations[0].Name)
	}
	operator.AwaitRunningOn(t, c, ns, "unlabelled", other)
}

func TestAVMOfAfterEnableIsRestartedElsewhereOnceTheNodeIsEmpty(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t, operator.Movable(c, ns, "labelled", pool).Strategy("ShutdownAndRestartAfterEnable"), operator.Movable(c, ns, "unlabelled", pool))
	before := getVMI(t, c, ns, "labelled").UID
	history, vmis := c.RecordVM(t, ns, "labelled"), c.RecordVMI(t, ns, "labelled")

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	restarted := operator.AwaitRunningOn(t, c, ns, "labelled", other)
	if restarted.UID == before {
		t.Error("the VM was moved instead of restarted")
	}
	operator.AwaitForgotten(t, c, ns, "labelled")
	operator.AwaitRunningOn(t, c, ns, "unlabelled", other)

	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	awaitPass(t, c, host)
	after := getVMI(t, c, ns, "labelled")
	if after.UID != restarted.UID || after.Status.NodeName != other {
		t.Errorf("leaving changed the VM: it runs on %s", after.Status.NodeName)
	}
	if migrations := migrationsOf(t, c, ns, "labelled"); len(migrations) > 0 {
		t.Errorf("the VM was migrated: %s", migrations[0].Name)
	}
	if got := runs(history.To(t, operator.GetVM(t, c, ns, "labelled"))); len(got) != 3 {
		t.Errorf("its run strategies were %v, want stopped once and started once", got)
	}
	if got := instances(vmis.To(t, getVMI(t, c, ns, "labelled"))); len(got) != 2 {
		t.Errorf("it had %d instances, want 2", len(got))
	}
}

func TestAVMOfShutdownStaysOff(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t, operator.Movable(c, ns, "labelled", pool).Strategy("Shutdown"), operator.Movable(c, ns, "unlabelled", pool))
	history := c.RecordVM(t, ns, "labelled")

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	c.AwaitNoVMI(t, ns, "labelled")
	operator.AwaitRunningOn(t, c, ns, "unlabelled", other)
	operator.AwaitMessage(t, c, host, "off until somebody starts them: "+ns+"/labelled")

	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	vm := operator.AwaitForgotten(t, c, ns, "labelled")
	c.AwaitNoVMI(t, ns, "labelled")
	versions := history.To(t, vm)
	never(t, "a VM of Shutdown has a marker", versions, operator.HasMarker)
	if got := runs(versions); len(got) != 2 || got[1] != "Halted" {
		t.Errorf("its run strategies were %v, want Always and then Halted", got)
	}
}

func TestForceStopsWhatCannotMoveAndEveryShutdownStrategyForGood(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	disk := volume(t, c, ns, "disk", host)
	operator.Create(t,
		operator.Movable(c, ns, "sole", pool).Claim("disk"),
		operator.Movable(c, ns, "labelled", pool).Strategy("ShutdownAndRestartAfterDisable"),
		operator.Movable(c, ns, "unlabelled", pool))
	awaitHealthy(t, c, disk, 1)
	stopped := []string{"sole", "labelled"}
	histories := map[string]*cluster.History[*virtv1.VirtualMachine]{}
	for _, name := range stopped {
		histories[name] = c.RecordVM(t, ns, name)
	}

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "refused", ns+"/sole", "last healthy replica", disk)
	operator.Force(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitRunningOn(t, c, ns, "unlabelled", other)
	operator.AwaitMessage(t, c, host, ns+"/labelled", ns+"/sole")

	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	for _, name := range stopped {
		operator.AwaitForgotten(t, c, ns, name)
		c.AwaitNoVMI(t, ns, name)
	}
	awaitPass(t, c, host)
	for _, name := range stopped {
		if vm := operator.GetVM(t, c, ns, name); !halted(vm) {
			t.Errorf("%s: run strategy %s after leaving, want Halted", name, runStrategy(vm))
		}
		never(t, "a VM stopped by force has a marker", histories[name].Versions(), operator.HasMarker)
	}
}

func TestANodeDeletedWhileCompletedTakesItsMarkersAlong(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t, operator.Movable(c, ns, "labelled", pool).Strategy("ShutdownAndRestartAfterDisable"), operator.Movable(c, ns, "unlabelled", pool))
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)

	deleteNode(t, c, host)
	vm := operator.AwaitForgotten(t, c, ns, "labelled")
	if !halted(vm) {
		t.Errorf("run strategy %s, want Halted: nobody asked to start it", runStrategy(vm))
	}
	operator.AwaitEvent(t, c, "VirtualMachine", ns, "labelled", "MaintenanceStaysOff", "is off", host, "virtctl start -n "+ns+" labelled")
	c.AwaitNoVMI(t, ns, "labelled")
	operator.AwaitRunningOn(t, c, ns, "unlabelled", other)
}
