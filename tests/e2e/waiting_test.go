package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"

	"github.com/drydock-dev/drydock/tests/operator"
)

// A guest that ignores the power button has the time that its owner gave it, and stays
// off afterwards, though KubeVirt restarts a failed VMI of that run strategy.
func TestAGuestThatIgnoresThePowerButtonHasItsOwnGracePeriod(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	grace := int64(6)
	operator.Create(t, c.VM(ns, "deaf").On(host).PinnedTo(pool).RunStrategy(virtv1.RunStrategyRerunOnFailure).Strategy("Shutdown").
		Annotate("sim.drydock.dev/shutdown-seconds", "never").
		Change(func(vm *virtv1.VirtualMachine) { vm.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace }))
	launcher := launcherOf(t, c, ns, "deaf")
	vmis := c.RecordVMI(t, ns, "deaf")
	mark := c.Audit(t, "drydock")

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "1 of 1 VMs left", "1 shutting down, up to 6 s ("+ns+"/deaf)")
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	c.AwaitNoVMI(t, ns, "deaf")
	// Destroyed at the end of its own time it is Failed; with none it would be Succeeded.
	vmis.Until(t, "the guest is destroyed at the end of its grace period", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.Status.Phase == virtv1.Failed })
	for _, r := range evictionsOf(mark.Requests(t), ns, launcher) {
		t.Errorf("the launcher of a VM that is shutting down: %s", r)
	}
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	if vm := operator.GetVM(t, c, ns, "deaf"); !halted(vm) || len(instances(vmis.Versions())) != 1 {
		t.Errorf("the VM should stay off: it is %s, %d VMIs", runStrategy(vm), len(instances(vmis.Versions())))
	}
}

// A paused VM moves like any other and stays paused. One that is to be stopped never
// blocks, and runs afterwards.
func TestAPausedVMMovesPausedAndAStoppedOneRunsAgain(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	grace := int64(1)
	operator.Create(t,
		operator.Movable(c, ns, "moves", pool).Annotate(migrationSeconds, "0.2"),
		c.VM(ns, "plain").On(host).PinnedTo(pool).Annotate(migrationSeconds, "0.2"),
		c.VM(ns, "stops").On(host).PinnedTo(pool).Strategy("ShutdownAndRestartAfterDisable").
			Change(func(vm *virtv1.VirtualMachine) { vm.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace }))
	paused := func(vmi *virtv1.VirtualMachineInstance) bool {
		for _, condition := range vmi.Status.Conditions {
			if condition.Type == virtv1.VirtualMachineInstancePaused {
				return condition.Status == corev1.ConditionTrue
			}
		}
		return false
	}
	for _, name := range []string{"moves", "plain", "stops"} {
		operator.AnnotateVMI(t, c, ns, name, map[string]string{"sim.drydock.dev/paused": "true"})
		c.AwaitVMI(t, ns, name, "the VM is paused", paused)
		operator.AwaitSeen(t, c, ns, name)
	}

	operator.Request(t, c, host)
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceDraining", ns+"/stops is paused and loses what it holds in memory")
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	for _, name := range []string{"moves", "plain"} {
		if vmi := operator.AwaitRunningOn(t, c, ns, name, other); !paused(vmi) {
			t.Errorf("%s is not paused any more", name)
		}
	}
	c.AwaitNoVMI(t, ns, "stops")
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	if vmi := operator.AwaitRunningOn(t, c, ns, "stops", host, other); paused(vmi) {
		t.Error("the VM that was started is paused")
	}
	operator.AwaitEvent(t, c, "VirtualMachine", ns, "stops", "MaintenanceStarted", "it was paused before and is not any more")
}

// A VM in the middle of starting has no node name yet, only a launcher: it is on the
// node all the same.
func TestAVMThatIsStillStartingIsAwaitedAndThenMoved(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Movable(c, ns, "boots", pool).Annotate("sim.drydock.dev/boot-seconds", "never").Submit(t)
	c.AwaitVMI(t, ns, "boots", "the VM is scheduled", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.Status.Phase == virtv1.Scheduled })

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, ns+"/boots is not running yet")
	operator.AnnotateVMI(t, c, ns, "boots", map[string]string{"sim.drydock.dev/boot-seconds": "0"})
	node := operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitRunningOn(t, c, ns, "boots", other)
	if message := maintenance.Condition(node).Message; strings.Contains(message, "boots") {
		t.Errorf("the VM has moved and is still named: %s", message)
	}
}
