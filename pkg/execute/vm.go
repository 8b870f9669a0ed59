package execute

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

func (e *Executor) vmLog(vm *kubevirtv1.VirtualMachine) logrus.FieldLogger {
	return e.log.WithFields(logrus.Fields{"namespace": vm.Namespace, "vm": vm.Name})
}

func (e *Executor) evict(ctx context.Context, a plan.Evict) error {
	if a.VMI != nil {
		e.memory.sending(a.VMI, a.Pod.Spec.NodeName, e.clock.Now())
	}
	sent := e.clock.Now()
	code, message, err := e.evictor.Evict(ctx, a.Pod)
	if err != nil {
		code, message = 0, err.Error()
	}
	e.memory.evicted(a.Pod, code, message, sent, e.clock.Now())
	e.observer.Evicted(a.VMI != nil, code)
	if err != nil {
		return fmt.Errorf("eviction of pod %s/%s: %w", a.Pod.Namespace, a.Pod.Name, err)
	}
	return nil
}

func (e *Executor) migrate(ctx context.Context, a plan.Migrate) error {
	e.memory.sending(a.VMI, a.VMI.Status.NodeName, e.clock.Now())
	e.memory.migrated(a.VMI, e.clock.Now())
	return e.movers.Migrate(ctx, a.VMI, a.ID)
}

func (e *Executor) deleteVMI(ctx context.Context, a plan.DeleteVMI) error {
	if err := e.subresources.DeleteVMI(ctx, a.VMI); err != nil {
		return err
	}
	e.Tell(nil, plan.Deleted(a))
	return nil
}

func (e *Executor) halt(ctx context.Context, a plan.Halt) error {
	if err := e.machines.Halt(ctx, a.VM, a.VMI, a.Record); err != nil {
		return err
	}
	if a.Record.Source == maintenance.SourceForce {
		e.vmLog(a.VM).Info("force stopping VM")
	} else {
		e.vmLog(a.VM).Info("stopping VM for maintenance mode")
	}
	e.Tell(nil, plan.Stopping(a))
	return nil
}

func (e *Executor) start(ctx context.Context, a plan.Start) error {
	log := e.vmLog(a.VM)
	if a.Record.Restart == maintenance.RestartAfterEnable {
		log.Info("restarting the VM that was temporary shut down for maintenance mode")
	} else {
		log.Info("restarting the VM that was shut down in maintenance mode")
	}
	e.memory.restored(a.VM, e.clock.Now())
	err := e.machines.Start(ctx, a.VM, a.Record)
	if err != nil && !apierrors.IsConflict(err) {
		e.Tell(nil, plan.StartFailed(a, err))
	}
	return err
}

func (e *Executor) forget(ctx context.Context, a plan.Forget) error {
	if err := e.machines.Forget(ctx, a.VM); err != nil {
		return err
	}
	e.memory.ForgetVM(vmKey(a.VM))
	if a.Told != nil {
		e.Tell(nil, *a.Told)
	}
	return nil
}

// Tell sends an event, about its VM or VMI if it has one, else about the node.
func (e *Executor) Tell(node *corev1.Node, event plan.Event) {
	kind := corev1.EventTypeNormal
	if event.Warning {
		kind = corev1.EventTypeWarning
	}
	switch {
	case event.VM != nil:
		e.vmLog(event.VM).Info(event.Message)
		e.events.Event(event.VM, kind, string(event.Reason), event.Message)
		return
	case event.VMI != nil:
		e.events.Event(event.VMI, kind, string(event.Reason), event.Message)
		return
	}
	e.logNode(node, event)
	e.events.Event(node, kind, string(event.Reason), event.Message)
}

func (e *Executor) logNode(node *corev1.Node, event plan.Event) {
	log := e.log.WithFields(logrus.Fields{"node": node.Name, "reason": event.Reason})
	if event.Reason == plan.EventDraining {
		log.Info("attempting to place node in maintenance mode")
	}
	log.Info(event.Message)
}
