package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"

	"github.com/drydock-dev/drydock/tests/operator"
)

// Leaving does not wait for a guest that takes its time to shut down: its VM is due and
// comes back by itself.
func TestAVMThatIsStillShuttingDownOnLeavingComesBackWhenItIsOff(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	slow := operator.Movable(c, ns, "slow", pool).Strategy("ShutdownAndRestartAfterEnable").Annotate("sim.drydock.dev/shutdown-seconds", "never")
	operator.Create(t,
		slow.Change(func(vm *virtv1.VirtualMachine) {
			grace := int64(600)
			vm.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
		}),
		operator.Movable(c, ns, "quick", pool).Strategy("ShutdownAndRestartAfterDisable"))
	history := c.RecordVM(t, ns, "slow")
	operator.Request(t, c, host)
	c.AwaitVM(t, ns, "slow", "stopped", operator.HasMarker)
	c.AwaitNoVMI(t, ns, "quick")

	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceLeft", "not started yet: ", ns+"/slow (it is still shutting down)")
	operator.AwaitEvent(t, c, "VirtualMachine", ns, "slow", "MaintenanceStartWaiting", "still shutting down")
	operator.AwaitRunningOn(t, c, ns, "quick", pool.Hosts...)
	if vm := operator.GetVM(t, c, ns, "slow"); operator.Marker(vm) != host || !halted(vm) {
		t.Errorf("the VM that is due shows %s", brief(vm))
	}
	// Another maintenance of the same host claims nothing of this one.
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseDraining)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	operator.AnnotateVMI(t, c, ns, "slow", map[string]string{"sim.drydock.dev/shutdown-seconds": "0"})
	operator.AwaitRunningOn(t, c, ns, "slow", pool.Hosts...)
	vm := operator.AwaitForgotten(t, c, ns, "slow")
	if got := runs(history.To(t, vm)); len(got) != 3 {
		t.Errorf("its run strategies were %v, want one stop and one start", got)
	}
}

// A VM's instance is known by its owner, whatever API version the reference
// names.
func TestAVMIWhoseOwnerIsNamedByAnOldAPIVersionIsItsVMs(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	vm := operator.Movable(c, ns, "z", pool).RunStrategy(virtv1.RunStrategyManual).Create(t)
	yes := true
	_, err := c.KubeVirt.KubevirtV1().VirtualMachineInstances(ns).Create(t.Context(), &virtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{
			Name: vm.Name, Namespace: ns,
			Annotations: map[string]string{"sim.drydock.dev/not-live-migratable": "HostDeviceNotLiveMigratable: it has a GPU"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "kubevirt.io/v1alpha3", Kind: "VirtualMachine", Name: vm.Name, UID: vm.UID, Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: vm.Spec.Template.Spec,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	operator.AwaitRunningOn(t, c, ns, "z", host)
	c.AwaitVMI(t, ns, "z", "cannot migrate", func(vmi *virtv1.VirtualMachineInstance) bool {
		for _, condition := range vmi.Status.Conditions {
			if condition.Type == virtv1.VirtualMachineInstanceIsMigratable {
				return condition.Status == "False"
			}
		}
		return false
	})
	operator.Request(t, c, host)
	if message := operator.Message(awaitRefused(t, c, host, "VM "+ns+"/z cannot be live-migrated")); strings.Contains(message, "belongs to no VM") {
		t.Errorf("the VM is not found: %s", message)
	}
	operator.Relabel(t, c, ns, "z", "Shutdown")
	operator.Request(t, c, host)
	c.AwaitVM(t, ns, "z", "stopped by its label", halted)
}
