package nodedrain

import (
	"context"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Watch keeps the pods of draining nodes. A cluster has far more pods than Drydock
// ever needs, so each draining node has a watch of its own, from its first pass to
// its last.
type Watch struct {
	ctx     context.Context
	client  kubernetes.Interface
	owners  Owners
	changed func(node string)
	log     logrus.FieldLogger

	mu    sync.Mutex
	nodes map[string]*nodeWatch
}

type nodeWatch struct {
	informer cache.SharedIndexInformer
	chooser  *chooser
	stop     context.CancelFunc
}

// NewWatch returns a Watch that calls changed for each change of a pod on a watched
// node, and once the node's pods are known. The watches end with the context.
func NewWatch(ctx context.Context, client kubernetes.Interface, owners Owners, changed func(node string), log logrus.FieldLogger) *Watch {
	return &Watch{ctx: ctx, client: client, owners: owners, changed: changed, log: log, nodes: map[string]*nodeWatch{}}
}

// Pods returns the pods that a drain removes from the node, in a stable order; known
// is false until the node's pods have been listed. The first call begins to watch and
// returns at once.
func (w *Watch) Pods(ctx context.Context, node string) (chosen []*corev1.Pod, known bool, err error) {
	watched, err := w.watched(node)
	if err != nil {
		return nil, false, err
	}
	if !watched.informer.HasSynced() {
		return nil, false, nil
	}
	var pods []*corev1.Pod
	for _, obj := range watched.informer.GetStore().List() {
		if pod, ok := obj.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	chosen, err = watched.chooser.choose(ctx, node, pods)
	return chosen, err == nil, err
}

// Launchers returns the launcher pods on a node that is watched, by any VMI, so far as they
// are known.
func (w *Watch) Launchers(node string) []*corev1.Pod {
	w.mu.Lock()
	watched := w.nodes[node]
	w.mu.Unlock()
	if watched == nil {
		return nil
	}
	var launchers []*corev1.Pod
	for _, obj := range watched.informer.GetStore().List() {
		if pod, ok := obj.(*corev1.Pod); ok && isLauncher(pod) {
			launchers = append(launchers, pod)
		}
	}
	return launchers
}

func (w *Watch) watched(node string) (*nodeWatch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched, ok := w.nodes[node]
	if !ok {
		var err error
		if watched, err = w.begin(node); err != nil {
			return nil, err
		}
		w.nodes[node] = watched
	}
	return watched, nil
}

// Forget ends the watch of a node.
func (w *Watch) Forget(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if watched, ok := w.nodes[node]; ok {
		watched.stop()
		delete(w.nodes, node)
	}
}

func (w *Watch) begin(node string) (*nodeWatch, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(w.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
		}))
	informer := factory.Core().V1().Pods().Informer()
	notify := func() { w.changed(node) }
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	})
	if err != nil {
		return nil, fmt.Errorf("watch of the pods of node %s: %w", node, err)
	}
	ctx, stop := context.WithCancel(w.ctx)
	go informer.RunWithContext(ctx)
	go func() {
		// An empty node has no events: that it is empty must be told as well.
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			notify()
		}
	}()
	return &nodeWatch{informer: informer, chooser: newChooser(w.client, w.owners, w.log), stop: stop}, nil
}
