package labelsync

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// onVM makes a VMI follow its VM.
func (c *Controller) onVM(_ string, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachine, error) {
	if vm == nil || vm.DeletionTimestamp != nil || !c.leading.Load() {
		return vm, nil
	}
	vmi, err := c.VMIs.Cache().Get(vm.Namespace, vm.Name)
	if apierrors.IsNotFound(err) {
		return vm, nil
	}
	if err != nil {
		return vm, fmt.Errorf("VMI of VM %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	if owner := metav1.GetControllerOfNoCopy(vmi); owner == nil || owner.UID != vm.UID || vmi.DeletionTimestamp != nil {
		return vm, nil
	}
	labels := c.Settings.toVMI(vm.Labels, vmi.Labels)
	if labels == nil {
		return vm, nil
	}
	again, err := c.write(c.PatchVMI, "VMI", vmi, labels, nil)
	if again {
		c.VMs.EnqueueAfter(vm.Namespace, vm.Name, conflictDelay)
	}
	return vm, err
}
