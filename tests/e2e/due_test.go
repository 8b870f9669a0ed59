package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Leaving does not wait for a guest that takes its time to shut down: its VM is due and
// comes back by itself.
func TestAVMThatIsStillShuttingDownOnLeavingComesBackWhenItIsOff(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	slow := movable(c, ns, "slow", pool).Strategy("ShutdownAndRestartAfterEnable").Annotate("sim.drydock.dev/shutdown-seconds", "never")
	create(t,
		slow.Change(func(vm *virtv1.VirtualMachine) {
			grace := int64(600)
			vm.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
		}),
		movable(c, ns, "quick", pool).Strategy("ShutdownAndRestartAfterDisable"))
	history := c.RecordVM(t, ns, "slow")
	request(t, c, host)
	c.AwaitVM(t, ns, "slow", "stopped", hasMarker)
	c.AwaitNoVMI(t, ns, "quick")

	leave(t, c, host)
	awaitOut(t, c, host)
	awaitEvent(t, c, "Node", "", host, "MaintenanceLeft", "not started yet: ", ns+"/slow (it is still shutting down)")
	awaitEvent(t, c, "VirtualMachine", ns, "slow", "MaintenanceStartWaiting", "still shutting down")
	awaitRunningOn(t, c, ns, "quick", pool.Hosts...)
	if vm := getVM(t, c, ns, "slow"); marker(vm) != host || !halted(vm) {
		t.Errorf("the VM that is due shows %s", brief(vm))
	}
	// Another maintenance of the same host claims nothing of this one.
	request(t, c, host)
	awaitPhase(t, c, host, maintenance.PhaseDraining)
	leave(t, c, host)
	awaitOut(t, c, host)
	annotateVMI(t, c, ns, "slow", map[string]string{"sim.drydock.dev/shutdown-seconds": "0"})
	awaitRunningOn(t, c, ns, "slow", pool.Hosts...)
	vm := awaitForgotten(t, c, ns, "slow")
	if got := runs(versionsTo(t, history, vm)); len(got) != 3 {
		t.Errorf("its run strategies were %v, want one stop and one start", got)
	}
}

// Case 19: a VM's instance is known by its owner, whatever API version the reference
// names.
func TestAVMIWhoseOwnerIsNamedByAnOldAPIVersionIsItsVMs(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	vm := movable(c, ns, "z", pool).RunStrategy(virtv1.RunStrategyManual).Create(t)
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
	awaitRunningOn(t, c, ns, "z", host)
	c.AwaitVMI(t, ns, "z", "cannot migrate", func(vmi *virtv1.VirtualMachineInstance) bool {
		for _, condition := range vmi.Status.Conditions {
			if condition.Type == virtv1.VirtualMachineInstanceIsMigratable {
				return condition.Status == "False"
			}
		}
		return false
	})
	request(t, c, host)
	if message := awaitRefusal(t, c, host, "VM "+ns+"/z cannot be live-migrated"); strings.Contains(message, "belongs to no VM") {
		t.Errorf("the VM is not found: %s", message)
	}
	relabel(t, c, ns, "z", "Shutdown")
	request(t, c, host)
	c.AwaitVM(t, ns, "z", "stopped by its label", halted)
}
