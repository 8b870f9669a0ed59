package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/kubevirt"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

const (
	namespace        = "demo"
	managerNamespace = "harvester-system"
)

// world is the cluster, seen through watches.
type world struct {
	kube kubernetes.Interface
	virt kubevirt.Interface

	nodes, pods, accounts, leases, vms, vmis cache.SharedIndexInformer

	mu      sync.Mutex
	changed chan struct{}
}

// connect begins to watch.
func connect(ctx context.Context, kubeconfig string) (*world, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of the dev cluster: %w", err)
	}
	w := &world{changed: make(chan struct{})}
	if w.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("client of Kubernetes: %w", err)
	}
	if w.virt, err = kubevirt.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("client of KubeVirt: %w", err)
	}
	_, err = w.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("namespace %s: %w", namespace, err)
	}
	cluster := informers.NewSharedInformerFactory(w.kube, 0)
	ours := informers.NewSharedInformerFactoryWithOptions(w.kube, 0, informers.WithNamespace(namespace))
	manager := informers.NewSharedInformerFactoryWithOptions(w.kube, 0, informers.WithNamespace(managerNamespace))
	w.nodes = cluster.Core().V1().Nodes().Informer()
	w.pods, w.accounts = ours.Core().V1().Pods().Informer(), ours.Core().V1().ServiceAccounts().Informer()
	w.leases = manager.Coordination().V1().Leases().Informer()
	w.vms = informerOf[*kubevirtv1.VirtualMachineList](w.virt.KubevirtV1().VirtualMachines(namespace), &kubevirtv1.VirtualMachine{})
	w.vmis = informerOf[*kubevirtv1.VirtualMachineInstanceList](w.virt.KubevirtV1().VirtualMachineInstances(namespace), &kubevirtv1.VirtualMachineInstance{})
	wake := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.wake() }, UpdateFunc: func(any, any) { w.wake() }, DeleteFunc: func(any) { w.wake() },
	}
	for _, informer := range []cache.SharedIndexInformer{w.nodes, w.pods, w.accounts, w.leases, w.vms, w.vmis} {
		if _, err := informer.AddEventHandler(wake); err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
		go informer.RunWithContext(ctx)
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil, context.Cause(ctx)
		}
	}
	return w, nil
}

// informerOf watches a kind that client-go has no factory for.
func informerOf[L runtime.Object](client interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}, kind runtime.Object) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: client.Watch,
	}, kind, 0, cache.Indexers{})
}

func (w *world) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}

// await returns once the condition holds. It is asked whenever anything changes.
func (w *world) await(ctx context.Context, what string, condition func() bool) error {
	limit := time.NewTimer(3 * time.Minute)
	defer limit.Stop()
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		if condition() {
			return nil
		}
		select {
		case <-changed:
		case <-limit.C:
			w.tables("now")
			return fmt.Errorf("waited three minutes for %s", what)
		case <-ctx.Done():
			return fmt.Errorf("while waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}

// led tells whether a manager holds the lease.
func (w *world) led() bool {
	lease := get[*coordinationv1.Lease](w.leases, managerNamespace+"/drydock")
	return lease != nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
}

// completed tells whether the host is empty and what restarts elsewhere runs again.
func (w *world) completed() bool {
	node := w.host()
	return node.Annotations[maintenance.AnnotationStatus] == maintenance.StatusCompleted &&
		w.runs(vmAfterEnable) && w.webRuns()
}

// left tells whether the host is as it was and what restarts on leaving runs again.
func (w *world) left() bool {
	node := w.host()
	return maintenance.Condition(node) == nil && !maintenance.Engaged(node) && !node.Spec.Unschedulable &&
		w.runs(vmAfterDisable)
}

func (w *world) host() *corev1.Node {
	if node := get[*corev1.Node](w.nodes, host); node != nil {
		return node
	}
	return &corev1.Node{}
}

// runs tells whether a VM runs and KubeVirt knows that it is ready.
func (w *world) runs(name string) bool {
	vm := get[*kubevirtv1.VirtualMachine](w.vms, namespace+"/"+name)
	return vm != nil && vm.Status.PrintableStatus == kubevirtv1.VirtualMachineStatusRunning
}

// annotate sets an annotation of the host, or removes it.
func (w *world) annotate(ctx context.Context, key string, value *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{key: value}}})
	if err != nil {
		return fmt.Errorf("annotation %s: %w", key, err)
	}
	if _, err := w.kube.CoreV1().Nodes().Patch(ctx, host, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("annotation %s of node %s: %w", key, host, err)
	}
	return nil
}

// get reads an object from a watch, nil if there is none.
func get[T any](informer cache.SharedIndexInformer, key string) T {
	var none T
	object, exists, err := informer.GetStore().GetByKey(key)
	if err != nil || !exists {
		return none
	}
	found, ok := object.(T)
	if !ok {
		return none
	}
	return found
}

// list reads all objects from a watch.
func list[T any](informer cache.SharedIndexInformer) []T {
	var found []T
	for _, object := range informer.GetStore().List() {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	return found
}
