package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	virtv1 "kubevirt.io/api/core/v1"
)

// lister is what every typed client of one kind can do.
type lister[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// source makes a list and watch of the one object of that name.
type source func(name string) *cache.ListWatch

func watchOf[L runtime.Object](client lister[L]) source {
	return func(name string) *cache.ListWatch {
		only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		return &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = only
				return client.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = only
				return client.Watch(ctx, options)
			},
		}
	}
}

func (c *Cluster) nodes() source { return watchOf[*corev1.NodeList](c.Kube.CoreV1().Nodes()) }

func (c *Cluster) vms(namespace string) source {
	return watchOf[*virtv1.VirtualMachineList](c.KubeVirt.KubevirtV1().VirtualMachines(namespace))
}

func (c *Cluster) vmis(namespace string) source {
	return watchOf[*virtv1.VirtualMachineInstanceList](c.KubeVirt.KubevirtV1().VirtualMachineInstances(namespace))
}

// AwaitNode watches a Node until the condition holds, and returns it. If it never
// does, the test fails and the cluster's state is in its log.
func (c *Cluster) AwaitNode(t testing.TB, name, what string, condition func(*corev1.Node) bool) *corev1.Node {
	t.Helper()
	return await(t, c, what, name, c.nodes(), condition)
}

// AwaitVM watches a VM, see AwaitNode.
func (c *Cluster) AwaitVM(t testing.TB, namespace, name, what string, condition func(*virtv1.VirtualMachine) bool) *virtv1.VirtualMachine {
	t.Helper()
	return await(t, c, what, name, c.vms(namespace), condition)
}

// AwaitVMI watches a VMI, see AwaitNode.
func (c *Cluster) AwaitVMI(t testing.TB, namespace, name, what string, condition func(*virtv1.VirtualMachineInstance) bool) *virtv1.VirtualMachineInstance {
	t.Helper()
	return await(t, c, what, name, c.vmis(namespace), condition)
}

// AwaitNoVMI watches until there is no VMI of that name.
func (c *Cluster) AwaitNoVMI(t testing.TB, namespace, name string) {
	t.Helper()
	c.Eventually(t, "the VMI "+namespace+"/"+name+" is gone", func(ctx context.Context) error {
		list, err := c.KubeVirt.KubevirtV1().VirtualMachineInstances(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
		})
		if err == nil && len(list.Items) > 0 {
			err = errors.New("its phase is " + string(list.Items[0].Status.Phase))
		}
		return err
	})
}

func await[T runtime.Object](t testing.TB, c *Cluster, what, name string, from source, condition func(T) bool) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var kind, last T
	event, err := watchtools.UntilWithSync(ctx, from(name), kind, nil, func(event watch.Event) (bool, error) {
		object, ok := event.Object.(T)
		if !ok || event.Type == watch.Deleted {
			return false, nil
		}
		last = object
		return condition(object), nil
	})
	if err != nil {
		c.Dump(t)
		t.Fatalf("%s: not within %v: %s (%v); last seen: %s", name, patience, what, err, brief(last))
	}
	return event.Object.(T) // the condition has seen it
}

// Eventually asks condition again and again until it returns nil. If it never
// does, the test fails with the last error, and the cluster's state is in its log.
// Like everything here that waits, it ends with the test and is not for cleanups.
func (c *Cluster) Eventually(t testing.TB, what string, condition func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := condition(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			c.Dump(t)
			t.Fatalf("not within %v: %s: %v", patience, what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
