package app

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	"k8s.io/client-go/tools/cache"
)

// crds knows which CustomResourceDefinitions are established, now and later: other
// systems are installed and removed while Drydock runs.
type crds struct {
	informer cache.SharedIndexInformer

	mu      sync.Mutex
	changed chan struct{}
}

// newCRDs begins to watch. Only names and conditions are kept: some schemas weigh
// megabytes.
func newCRDs(ctx context.Context, client apiextensions.Interface) (*crds, error) {
	factory := apiextensionsinformers.NewSharedInformerFactoryWithOptions(client, 0,
		apiextensionsinformers.WithTransform(func(obj any) (any, error) {
			if crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
				crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{}
				crd.Annotations, crd.ManagedFields = nil, nil
			}
			return obj, nil
		}))
	c := &crds{informer: factory.Apiextensions().V1().CustomResourceDefinitions().Informer(), changed: make(chan struct{})}
	if _, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.signal() },
		UpdateFunc: func(any, any) { c.signal() },
		DeleteFunc: func(any) { c.signal() },
	}); err != nil {
		return nil, fmt.Errorf("watch of CustomResourceDefinitions: %w", err)
	}
	factory.StartWithContext(ctx)
	return c, nil
}

func (c *crds) signal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *crds) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// each calls look after every change, of several changes at once maybe only once, until
// the context ends.
func (c *crds) each(ctx context.Context, look func()) {
	for {
		changed := c.next()
		look()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// established reports whether all the named CRDs serve requests.
func (c *crds) established(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		obj, exists, err := c.informer.GetStore().GetByKey(name)
		if err != nil || !exists {
			return true
		}
		crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		return !ok || crd.DeletionTimestamp != nil || !slices.ContainsFunc(crd.Status.Conditions, func(condition apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
		})
	})
}

// wait returns once all the named CRDs are established, or the context ends.
func (c *crds) wait(ctx context.Context, names ...string) error {
	for {
		next := c.next()
		if c.established(names...) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		}
	}
}

// follow calls start, with a context that ends when one of the named CRDs goes, each
// time they are all established. It returns when the context ends.
func (c *crds) follow(ctx context.Context, start func(ctx context.Context), names ...string) {
	for c.wait(ctx, names...) == nil {
		present, gone := context.WithCancel(ctx)
		start(present)
		for c.established(names...) && ctx.Err() == nil {
			next := c.next()
			if !c.established(names...) {
				break
			}
			select {
			case <-ctx.Done():
			case <-next:
			}
		}
		gone()
	}
}
