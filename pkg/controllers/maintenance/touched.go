package maintenance

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

const recordedIndex = "drydock.dev/recorded"

// Watch makes changes of VMs, VMIs, migrations, launcher pods and budgets, and of what
// other nodes can take, bring a pass to the nodes that they touch, and to no other. wrangler's relatedresource does not
// serve: it shows only the new state of an object, so that the node which a VMI has
// just left would hear nothing.
func (c *Controller) Watch(nodes, vms, vmis, migrations, launchers, budgets cache.SharedIndexInformer) error {
	c.Nodes.Cache().AddIndexer(recordedIndex, func(node *corev1.Node) ([]string, error) {
		if maintenance.Recorded(node) {
			return []string{"true"}, nil
		}
		return nil, nil
	})
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		touched  func(obj any)
	}{
		{vms, c.touchedByVM},
		{vmis, c.touchedByVMI},
		{migrations, func(any) { c.enqueueEngaged(0) }},
		{launchers, c.touchedByPod},
		{budgets, c.touchedByBudget},
	} {
		if err := c.watch(watched.informer, watched.touched); err != nil {
			return err
		}
	}
	return c.watchNodes(nodes)
}

// gathering is how long changes of other nodes and of storage are gathered: when many
// nodes enter maintenance at once, each change of each would bring a pass to all others.
const gathering = 200 * time.Millisecond

// watchNodes looks at every engaged node when another one begins or ceases to take VMs:
// whether a VM can move depends on it. A heartbeat changes nothing of that.
func (c *Controller) watchNodes(nodes cache.SharedIndexInformer) error {
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.enqueueEngaged(gathering) },
		UpdateFunc: func(before, now any) {
			old, okOld := before.(*corev1.Node)
			current, okNow := now.(*corev1.Node)
			if !okOld || !okNow || plan.TakesOthers(c.Words, old, current) {
				c.enqueueEngaged(gathering)
			}
		},
		DeleteFunc: func(any) { c.enqueueEngaged(gathering) },
	})
	if err != nil {
		return fmt.Errorf("watch of nodes: %w", err)
	}
	return nil
}

// WatchStorage makes changes of volumes, or of their replicas, bring a pass to every node
// in maintenance: whether a node may be taken down depends on who uses a volume anywhere,
// and on replicas elsewhere. changed tells such changes from the others.
func (c *Controller) WatchStorage(informer cache.SharedIndexInformer, changed func(before, now any) bool) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.enqueueEngaged(gathering) },
		UpdateFunc: func(before, now any) {
			if changed(before, now) {
				c.enqueueEngaged(gathering)
			}
		},
		DeleteFunc: func(any) { c.enqueueEngaged(gathering) },
	})
	if err != nil {
		return fmt.Errorf("watch of storage: %w", err)
	}
	return nil
}

// watch calls touched with the old and the new state of each change.
func (c *Controller) watch(informer cache.SharedIndexInformer, touched func(obj any)) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: touched,
		UpdateFunc: func(before, now any) {
			touched(before)
			touched(now)
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			touched(obj)
		},
	})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	return nil
}

// touchedByVM: the strategy, and what a stop waits for, are on the VM. One that is off is
// in the report of the node that it was stopped for.
func (c *Controller) touchedByVM(obj any) {
	vm, ok := obj.(*kubevirtv1.VirtualMachine)
	if !ok || !c.leading.Load() {
		return
	}
	if vmi, err := c.VMIs.Get(vm.Namespace, vm.Name); err == nil {
		for _, node := range plan.NodesOf(vmi) {
			c.enqueueIfConcerned(node)
		}
	}
	if record, err := maintenance.VMRecordOf(vm); err == nil && record != nil {
		c.enqueueIfConcerned(record.Node)
	}
}

func (c *Controller) touchedByVMI(obj any) {
	vmi, ok := obj.(*kubevirtv1.VirtualMachineInstance)
	if !ok || !c.leading.Load() {
		return
	}
	for _, node := range plan.NodesOf(vmi) {
		c.enqueueIfConcerned(node)
	}
	// The VM of the same name may be one that waits for its VMI to be gone, or to be
	// there again. VMs without a record are looked at for a moment only.
	c.VMs.EnqueueAfter(vmi.Namespace, vmi.Name, 0)
}

func (c *Controller) touchedByPod(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || !c.leading.Load() {
		return
	}
	c.enqueueIfConcerned(pod.Spec.NodeName)
	// The target of a migration concerns the node that the VMI is to leave, be it one that
	// no node takes, or one that has ended.
	name := plan.VMIOf(pod)
	if name == "" {
		return
	}
	// The VM of that name may wait for the pod to end.
	c.VMs.EnqueueAfter(pod.Namespace, name, 0)
	if vmi, err := c.VMIs.Get(pod.Namespace, name); err == nil {
		for _, node := range plan.NodesOf(vmi) {
			c.enqueueIfConcerned(node)
		}
	}
}

// touchedByBudget: whether an eviction is allowed may have changed for any draining
// node. Budgets change seldom, and few nodes drain.
func (c *Controller) touchedByBudget(obj any) {
	if _, ok := obj.(*policyv1.PodDisruptionBudget); ok {
		c.enqueueEngaged(0)
	}
}

func (c *Controller) enqueueIfConcerned(name string) {
	if name == "" {
		return
	}
	if node, err := c.Nodes.Cache().Get(name); err == nil && c.concerned(node) {
		c.enqueueNode(name)
	}
}

// enqueueEngaged looks at every node that Drydock has in maintenance: a migration that
// ends anywhere frees a slot of the cluster.
func (c *Controller) enqueueEngaged(after time.Duration) {
	if !c.leading.Load() {
		return
	}
	nodes, err := c.Nodes.Cache().GetByIndex(recordedIndex, "true")
	if err != nil {
		c.Log.WithError(err).Error("engaged nodes")
		return
	}
	for _, node := range nodes {
		c.Nodes.EnqueueAfter(node.Name, after)
	}
}
