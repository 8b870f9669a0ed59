package labelsync

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// Watch looks at a VM again when its VMI is new or has other labels, and at a VMI when
// one of its launcher pods is or has. Their status changes all the time and means
// nothing here. An object that goes takes its labels along.
func (c *Controller) Watch(vmis, launchers cache.SharedIndexInformer) error {
	if err := c.watch(vmis, func(obj any) {
		if vmi, ok := obj.(*kubevirtv1.VirtualMachineInstance); ok {
			c.VMs.EnqueueAfter(vmi.Namespace, vmi.Name, 0)
		}
	}); err != nil {
		return fmt.Errorf("watch of VMIs: %w", err)
	}
	if err := c.watch(launchers, func(obj any) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return
		}
		if vmi := plan.VMIOf(pod); vmi != "" {
			c.VMIs.EnqueueAfter(pod.Namespace, vmi, 0)
		}
	}); err != nil {
		return fmt.Errorf("watch of launcher pods: %w", err)
	}
	return nil
}

func (c *Controller) watch(informer cache.SharedIndexInformer, look func(obj any)) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if c.leading.Load() {
				look(obj)
			}
		},
		UpdateFunc: func(before, now any) {
			old, okOld := before.(metav1.Object)
			current, okNow := now.(metav1.Object)
			if c.leading.Load() && okOld && okNow && !maps.Equal(old.GetLabels(), current.GetLabels()) {
				look(now)
			}
		},
	})
	return err
}
