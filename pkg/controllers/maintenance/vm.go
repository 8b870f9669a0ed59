package maintenance

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// onVM goes on with a VM that Drydock stopped, from the VM alone: it is due once its
// node has left that maintenance, however it left.
func (c *Controller) onVM(_ string, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachine, error) {
	if vm == nil || !c.leading.Load() {
		return vm, nil
	}
	if _, ok := vm.Annotations[maintenance.AnnotationVMRecord]; !ok {
		return vm, nil
	}
	snapshot, stopped, err := c.Gatherer.VM(vm)
	if err != nil || stopped == nil {
		return vm, err
	}
	p, err := plan.DecideVM(snapshot, stopped)
	if err != nil {
		return vm, err
	}
	if p.Wake > 0 {
		c.VMs.EnqueueAfter(vm.Namespace, vm.Name, p.Wake)
	}
	if p.Waiting != "" {
		c.Log.WithField("namespace", vm.Namespace).WithField("vm", vm.Name).Debugf("not started yet: %s", p.Waiting)
	}
	ctx, cancel := context.WithTimeout(c.ctx, passLimit)
	defer cancel()
	err = c.Executor.VM(ctx, p)
	if apierrors.IsConflict(err) {
		c.VMs.EnqueueAfter(vm.Namespace, vm.Name, time.Second)
		return vm, nil
	}
	return vm, err
}
