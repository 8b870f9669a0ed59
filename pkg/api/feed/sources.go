package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/drydock-dev/drydock/pkg/api/view"
)

// ErrNotKnown is wrapped by errors about a kind whose objects have not arrived yet.
var ErrNotKnown = errors.New("not known yet")

// patience is how long a caller waits for the objects of a kind.
const patience = 10 * time.Second

// Sources finds the feed of a kind, and begins to watch a kind when somebody asks for it:
// a cluster has many pods, and a manager whose lists nobody reads does not hold them.
type Sources struct {
	// ctx is the life of the watches, which is that of the process.
	ctx    context.Context // watches outlive the request that begins them
	client kubernetes.Interface

	mu    sync.Mutex
	known map[string]*source
}

type source struct {
	feed   *Feed
	synced cache.InformerSynced
}

// NewSources returns Sources whose watches end with the context.
func NewSources(ctx context.Context, client kubernetes.Interface) *Sources {
	return &Sources{ctx: ctx, client: client, known: map[string]*source{}}
}

// Follow makes the feed of a kind from an informer that is there already. The caller starts
// it.
func (s *Sources) Follow(kind *view.Kind, informer cache.SharedInformer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := New(kind)
	synced, err := f.Follow(informer)
	if err != nil {
		return fmt.Errorf("watch of %s: %w", kind.Plural, err)
	}
	s.known[kind.Type] = &source{feed: f, synced: synced}
	return nil
}

// Feed returns the feed of a kind once its objects have arrived.
func (s *Sources) Feed(ctx context.Context, kind *view.Kind) (*Feed, error) {
	found, err := s.source(kind)
	if err != nil {
		return nil, err
	}
	if found.synced() {
		return found.feed, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), found.synced) {
		return nil, fmt.Errorf("%s: %w", kind.Plural, ErrNotKnown)
	}
	return found.feed, nil
}

func (s *Sources) source(kind *view.Kind) (*source, error) {
	s.mu.Lock()
	found, ok := s.known[kind.Type]
	s.mu.Unlock()
	if ok {
		return found, nil
	}
	return s.begin(kind)
}

func (s *Sources) begin(kind *view.Kind) (*source, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithTransform(trim))
	var informer cache.SharedInformer
	switch kind.Type {
	case view.Namespaces.Type:
		informer = factory.Core().V1().Namespaces().Informer()
	case view.Pods.Type:
		informer = factory.Core().V1().Pods().Informer()
	default:
		return nil, fmt.Errorf("%s: %w", kind.Plural, ErrNotKnown)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.known[kind.Type]; ok {
		return found, nil // Somebody else was as quick.
	}
	f := New(kind)
	synced, err := f.Follow(informer)
	if err != nil {
		return nil, fmt.Errorf("watch of %s: %w", kind.Plural, err)
	}
	s.known[kind.Type] = &source{feed: f, synced: synced}
	factory.StartWithContext(s.ctx)
	return s.known[kind.Type], nil
}

// trim keeps of an object what a list of hosts shows of it. Of a pod that is where it runs,
// what it requests and how it is.
func trim(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Namespace:
		o.ManagedFields = nil
	case *corev1.Pod:
		slim := &corev1.Pod{
			TypeMeta: o.TypeMeta, ObjectMeta: o.ObjectMeta,
			Spec:   corev1.PodSpec{NodeName: o.Spec.NodeName},
			Status: corev1.PodStatus{Phase: o.Status.Phase, Conditions: o.Status.Conditions},
		}
		slim.ManagedFields, slim.Annotations = nil, nil
		for i := range o.Spec.Containers {
			container := &o.Spec.Containers[i]
			slim.Spec.Containers = append(slim.Spec.Containers, corev1.Container{Name: container.Name, Image: container.Image, Resources: container.Resources})
		}
		return slim, nil
	}
	return object, nil
}
