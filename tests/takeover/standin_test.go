package takeover

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
)

// standIn does to nodes and VMs what Harvester's drain controller, its maintain controller
// and its Disable handler do, each after thinking for a pace. It knows nothing of Drydock.
type standIn struct {
	c    *cluster.Cluster
	pace time.Duration
	// calls makes its handler start VMs by KubeVirt's start subresource, and take the
	// marker away after that; another version of it writes both at once.
	calls bool

	ctx     context.Context
	running sync.WaitGroup

	mu      sync.Mutex
	served  []string
	present map[string]bool
}

// start runs the two controllers until the test ends or end is called.
func start(t *testing.T, c *cluster.Cluster, pace time.Duration) (h *standIn, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h = &standIn{c: c, pace: pace, ctx: ctx, present: map[string]bool{}}
	factory := informers.NewSharedInformerFactory(c.Kube, 0)
	informer := factory.Core().V1().Nodes().Informer()
	look := func(obj any) {
		if node, ok := obj.(*corev1.Node); ok {
			h.look(node)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, now any) { look(now) }}); err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the stand-in knows no nodes")
	}
	end = func() {
		cancel()
		factory.Shutdown()
		h.running.Wait()
	}
	t.Cleanup(end)
	return h, end
}

// drained are the nodes whose request it has served.
func (h *standIn) drained() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.served)
}

func (h *standIn) look(node *corev1.Node) {
	if _, requested := node.Annotations[maintenance.AnnotationRequested]; requested {
		h.once("drain "+node.Name, func() error { return h.drain(node.Name) })
	}
	if node.Annotations[maintenance.AnnotationStatus] == maintenance.StatusRunning {
		h.once("maintain "+node.Name, func() error { return h.maintain(node.Name) })
	}
}

// once does one thing at a time for a node, again and again while it fails.
func (h *standIn) once(what string, do func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.present[what] {
		return
	}
	h.present[what] = true
	h.running.Go(func() {
		_ = wait.PollUntilContextCancel(h.ctx, 200*time.Millisecond, false, func(context.Context) (bool, error) {
			return do() == nil, nil
		})
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.present, what)
	})
}

func (h *standIn) think() error {
	select {
	case <-h.ctx.Done():
		return h.ctx.Err()
	case <-time.After(h.pace):
		return nil
	}
}

var errNotYet = errors.New("not yet")

func (h *standIn) drain(name string) error {
	if err := h.think(); err != nil {
		return err
	}
	h.mu.Lock()
	if !slices.Contains(h.served, name) {
		h.served = append(h.served, name)
	}
	h.mu.Unlock()
	if err := h.changeNode(h.ctx, name, func(node *corev1.Node) { node.Spec.Unschedulable = true }); err != nil {
		return err
	}
	left, err := h.on(name)
	if err != nil {
		return err
	}
	for n := range left {
		if err := h.empty(&left[n], name); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return errNotYet
	}
	return h.changeNode(h.ctx, name, func(node *corev1.Node) {
		node.Annotations[maintenance.AnnotationStatus] = maintenance.StatusRunning
		delete(node.Annotations, maintenance.AnnotationRequested)
		delete(node.Annotations, maintenance.AnnotationForced)
	})
}

// empty shuts a VM down, with the marker, or evicts its launcher.
func (h *standIn) empty(vmi *virtv1.VirtualMachineInstance, node string) error {
	vms := h.c.KubeVirt.KubevirtV1().VirtualMachines(vmi.Namespace)
	vm, err := vms.Get(h.ctx, vmi.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if strategy, _, _ := maintenance.StrategyOf(vm.Labels); strategy.Stops() {
		if vm.Spec.RunStrategy == nil || *vm.Spec.RunStrategy == virtv1.RunStrategyHalted {
			return nil
		}
		halted := virtv1.RunStrategyHalted
		if vm.Annotations == nil {
			vm.Annotations = map[string]string{}
		}
		vm.Annotations[maintenance.AnnotationRunStrategy] = string(*vm.Spec.RunStrategy)
		vm.Annotations[maintenance.AnnotationMarker] = node
		vm.Spec.RunStrategy = &halted
		_, err := vms.Update(h.ctx, vm, metav1.UpdateOptions{})
		return err
	}
	pods, err := h.c.Kube.CoreV1().Pods(vmi.Namespace).List(h.ctx, metav1.ListOptions{LabelSelector: virtv1.CreatedByLabel + "=" + string(vmi.UID), FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return err
	}
	for n := range pods.Items {
		// KubeVirt answers 429 for what it takes over.
		err := h.c.Kube.CoreV1().Pods(vmi.Namespace).EvictV1(h.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pods.Items[n].Name, Namespace: vmi.Namespace}})
		if err != nil && !apierrors.IsTooManyRequests(err) {
			return err
		}
	}
	return nil
}

func (h *standIn) maintain(name string) error {
	if err := h.think(); err != nil {
		return err
	}
	if left, err := h.on(name); err != nil || len(left) > 0 {
		return errors.Join(err, errNotYet)
	}
	if err := h.bringBack(h.ctx, name, maintenance.StrategyRestartAfterEnable); err != nil {
		return err
	}
	return h.changeNode(h.ctx, name, func(node *corev1.Node) {
		if node.Annotations[maintenance.AnnotationStatus] == maintenance.StatusRunning {
			node.Annotations[maintenance.AnnotationStatus] = maintenance.StatusCompleted
		}
	})
}

// disable is the handler of the action by which Harvester's users leave maintenance.
func (h *standIn) disable(t *testing.T, name string) {
	t.Helper()
	if err := h.think(); err != nil {
		t.Fatal(err)
	}
	if err := h.changeNode(t.Context(), name, func(node *corev1.Node) {
		delete(node.Annotations, maintenance.AnnotationStatus)
		delete(node.Annotations, maintenance.AnnotationRequested)
		delete(node.Annotations, maintenance.AnnotationForced)
		node.Spec.Unschedulable = false
	}); err != nil {
		t.Fatal(err)
	}
	if err := h.think(); err != nil {
		t.Fatal(err)
	}
	if err := h.bringBack(t.Context(), name, maintenance.StrategyRestartAfterDisable); err != nil {
		t.Fatal(err)
	}
}

// bringBack restores the run strategy of the VMs that a node's marker is on.
func (h *standIn) bringBack(ctx context.Context, node string, strategy maintenance.Strategy) error {
	list, err := h.c.KubeVirt.KubevirtV1().VirtualMachines(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: maintenance.LabelStrategy + "=" + string(strategy)})
	if err != nil {
		return err
	}
	for n := range list.Items {
		key := &list.Items[n]
		vms := h.c.KubeVirt.KubevirtV1().VirtualMachines(key.Namespace)
		if h.calls && key.Annotations[maintenance.AnnotationMarker] == node {
			// KubeVirt's own patch tests what it has read, and fails when the VM has changed.
			if err := retry.OnError(retry.DefaultBackoff, func(err error) bool { return !apierrors.IsConflict(err) }, func() error {
				return vms.Start(ctx, key.Name, &virtv1.StartOptions{})
			}); err != nil && !apierrors.IsConflict(err) {
				return err
			}
		}
		if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			vm, err := vms.Get(ctx, key.Name, metav1.GetOptions{})
			ours := h.calls && key.Annotations[maintenance.AnnotationMarker] == node
			if err != nil || (!ours && vm.Annotations[maintenance.AnnotationMarker] != node) {
				return err
			}
			delete(vm.Annotations, maintenance.AnnotationMarker)
			back := virtv1.VirtualMachineRunStrategy(vm.Annotations[maintenance.AnnotationRunStrategy])
			vm.Spec.RunStrategy = &back
			_, err = vms.Update(ctx, vm, metav1.UpdateOptions{})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// on lists what still runs on a node.
func (h *standIn) on(node string) ([]virtv1.VirtualMachineInstance, error) {
	list, err := h.c.KubeVirt.KubevirtV1().VirtualMachineInstances(metav1.NamespaceAll).List(h.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(vmi virtv1.VirtualMachineInstance) bool { return vmi.Status.NodeName != node || vmi.IsFinal() }), nil
}

func (h *standIn) changeNode(ctx context.Context, name string, change func(*corev1.Node)) error {
	nodes := h.c.Kube.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(node)
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}
