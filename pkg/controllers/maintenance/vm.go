package maintenance

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// onVM goes on with a VM that Drydock stopped, from the VM alone: it is due once its
// node has left that maintenance, however it left.
func (c *Controller) onVM(key string, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachine, error) {
	if !c.leading.Load() {
		return vm, nil
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return vm, fmt.Errorf("VM %q: %w", key, err)
	}
	if vm == nil {
		gone := types.NamespacedName{Namespace: namespace, Name: name}
		c.Memory.ForgetVM(gone)
		// Each change of a VMI without a VM comes here as well, and what was told of that
		// VMI lasts as long as it does.
		if _, err := c.VMIs.Get(namespace, name); apierrors.IsNotFound(err) {
			c.told.forget(gone)
		}
		return vm, nil
	}
	snapshot, stopped, err := c.Gatherer.VM(vm)
	if stopped == nil {
		c.tellForeign(vm)
		return vm, err
	}
	if err != nil {
		return vm, err
	}
	if old, err := c.lags(stopped.Record.Node, snapshot.Node); old || err != nil {
		return vm, err
	}
	p, err := plan.DecideVM(snapshot, stopped)
	if err != nil {
		return vm, err
	}
	if p.Wake > 0 {
		c.VMs.EnqueueAfter(vm.Namespace, vm.Name, p.Wake)
	}
	if p.Stuck {
		c.tellOnce(plan.StartWaits(stopped, p.Waiting))
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

// tellForeign reports a marker by which Drydock starts nothing.
func (c *Controller) tellForeign(vm *kubevirtv1.VirtualMachine) {
	marker := vm.Annotations[maintenance.AnnotationMarker]
	if marker == "" {
		return
	}
	node, err := c.Nodes.Cache().Get(marker)
	if err != nil && !apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		node = nil
	}
	if event := plan.ForeignMarker(c.Words, vm, node); event != nil {
		c.tellOnce(*event)
	}
}

func (c *Controller) tellOnce(event plan.Event) {
	if c.told.first("", event) {
		c.Executor.Tell(nil, event)
	}
}
