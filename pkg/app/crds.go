package app

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	"k8s.io/apimachinery/pkg/util/wait"
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
		if ctx.Err() == nil && c.established(names...) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		}
	}
}

// follow has what there is to check checked while the named CRDs are all established:
// start begins that, and what it began ends with its context. It returns when the context
// ends.
func (c *crds) follow(ctx context.Context, checked string, start func(ctx context.Context) error, names ...string) {
	for c.wait(ctx, names...) == nil {
		present, gone := context.WithCancel(ctx)
		var checking sync.WaitGroup
		checking.Go(func() { keep(present, checked, start) })
		for next := c.next(); c.established(names...) && ctx.Err() == nil; next = c.next() {
			select {
			case <-ctx.Done():
			case <-next:
			}
		}
		gone()
		checking.Wait()
	}
}

// keep starts what is to run until the context ends, again and again when that fails:
// while it does not run, drains wait for it.
func keep(ctx context.Context, checked string, start func(ctx context.Context) error) {
	delays := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 6, Cap: time.Minute}
	for ctx.Err() == nil {
		attempt, end := context.WithCancel(ctx)
		err := start(attempt)
		if err == nil {
			logrus.Infof("%s are checked", checked)
			<-ctx.Done()
			end()
			logrus.Infof("%s are not checked any more", checked)
			return
		}
		end()
		if ctx.Err() != nil {
			return
		}
		logrus.WithError(err).Errorf("%s are not checked yet", checked)
		select {
		case <-ctx.Done():
		case <-time.After(delays.Step()):
		}
	}
}
