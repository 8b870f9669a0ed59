package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// narrate tells what the watches show from now on.
func (w *world) narrate() {
	tell(w.nodes, tellNode)
	tell(w.vms, tellVM)
	tell(w.vmis, tellVMI)
	tell(w.pods, tellPod)
}

// tell calls the teller with the states before and after each change; nil means that
// the object did or does not exist. What is there already is not told.
func tell[T any](informer cache.SharedIndexInformer, teller func(before, now *T)) {
	known := func(obj any) *T {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		object, _ := obj.(*T)
		return object
	}
	// The informer runs already; an error would say that it was stopped.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial {
				teller(nil, known(obj))
			}
		},
		UpdateFunc: func(before, now any) { teller(known(before), known(now)) },
		DeleteFunc: func(obj any) { teller(known(obj), nil) },
	})
}

func tellNode(before, now *corev1.Node) {
	if before == nil || now == nil || now.Name != host {
		return
	}
	if was, is := maintenance.PhaseOf(before), maintenance.PhaseOf(now); was != is {
		if is == maintenance.PhaseNone {
			say("%s  is out of maintenance", host)
		} else {
			say("%s  %s: %s", host, is, maintenance.Condition(now).Message)
		}
	}
	if was, is := before.Annotations[maintenance.AnnotationStatus], now.Annotations[maintenance.AnnotationStatus]; was != is && is != "" {
		say("%s  %s=%s", host, maintenance.AnnotationStatus, is)
	}
	switch was, is := before.Spec.Unschedulable, now.Spec.Unschedulable; {
	case is && !was:
		say("%s  cordoned", host)
	case was && !is:
		say("%s  uncordoned", host)
	}
}

func tellVM(before, now *kubevirtv1.VirtualMachine) {
	if before == nil || now == nil {
		return
	}
	switch strategy := *now.Spec.RunStrategy; strategy {
	case *before.Spec.RunStrategy:
	case kubevirtv1.RunStrategyHalted:
		say("    %-9s halted, as its label says: %s", now.Name, now.Labels[maintenance.LabelStrategy])
	default:
		say("    %-9s to run again: runStrategy %s", now.Name, strategy)
	}
}

func tellVMI(before, now *kubevirtv1.VirtualMachineInstance) {
	switch {
	case now == nil:
		say("    %-9s off", before.Name)
	case before == nil:
	case before.Status.Phase != kubevirtv1.Running && now.Status.Phase == kubevirtv1.Running:
		say("    %-9s started on %s", now.Name, now.Status.NodeName)
	case before.Status.Phase == kubevirtv1.Running && before.Status.NodeName != now.Status.NodeName:
		say("    %-9s moved to %s", now.Name, now.Status.NodeName)
	case !moving(before) && moving(now):
		say("    %-9s live migration to %s begins", now.Name, now.Status.MigrationState.TargetNode)
	}
}

// moving tells whether a VM's memory is on its way.
func moving(vmi *kubevirtv1.VirtualMachineInstance) bool {
	state := vmi.Status.MigrationState
	return state != nil && state.StartTimestamp != nil && state.EndTimestamp == nil
}

// tellPod tells of plain pods; those of VMs are told by their VMs.
func tellPod(before, now *corev1.Pod) {
	if now == nil || now.Labels["app"] == "" {
		return
	}
	switch {
	case before != nil && before.DeletionTimestamp == nil && now.DeletionTimestamp != nil:
		say("    pod %s evicted from %s", now.Labels["app"], now.Spec.NodeName)
	case before != nil && before.Status.Phase == corev1.PodPending && now.Status.Phase == corev1.PodRunning:
		say("    pod %s runs on %s", now.Labels["app"], now.Spec.NodeName)
	}
}
