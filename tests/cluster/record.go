package cluster

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	virtv1 "kubevirt.io/api/core/v1"
)

// History is every version of one object that a watch has seen, in order. A watch
// skips none: two writes in one millisecond are two versions.
type History[T metav1.Object] struct {
	mu       sync.Mutex
	versions []T
	grown    chan struct{}
}

// RecordNode records a Node from its present version on, until the test ends.
func (c *Cluster) RecordNode(t testing.TB, name string) *History[*corev1.Node] {
	t.Helper()
	return record[*corev1.Node](t, c.nodes(), name)
}

// RecordVM records a VM. It need not exist yet; versions after a deletion and a
// new creation follow those before.
func (c *Cluster) RecordVM(t testing.TB, namespace, name string) *History[*virtv1.VirtualMachine] {
	t.Helper()
	return record[*virtv1.VirtualMachine](t, c.vms(namespace), name)
}

// RecordVMI records a VMI, see RecordVM.
func (c *Cluster) RecordVMI(t testing.TB, namespace, name string) *History[*virtv1.VirtualMachineInstance] {
	t.Helper()
	return record[*virtv1.VirtualMachineInstance](t, c.vmis(namespace), name)
}

func record[T metav1.Object](t testing.TB, from source, name string) *History[T] {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	source := from(name)
	list, err := source.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		t.Fatalf("recording %s: %v", name, err)
	}
	h := &History[T]{grown: make(chan struct{})}
	if err := eachItem(list, func(object runtime.Object) { h.add(object) }); err != nil {
		cancel()
		t.Fatalf("recording %s: %v", name, err)
	}
	accessor, ok := list.(metav1.ListInterface)
	if !ok {
		cancel()
		t.Fatalf("recording %s: %T has no resource version", name, list)
	}
	// Unlike a plain watch, this one goes on when the apiserver ends it.
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, accessor.GetResourceVersion(), source)
	if err != nil {
		cancel()
		t.Fatalf("recording %s: %v", name, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			if event.Type == watch.Added || event.Type == watch.Modified || event.Type == watch.Deleted {
				h.add(event.Object)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return h
}

func (h *History[T]) add(object runtime.Object) {
	version, ok := object.(T)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions = append(h.versions, version)
	close(h.grown)
	h.grown = make(chan struct{})
}

// Versions is what has been seen up to now. A watch lags a little behind: use
// Until, or To, to be sure that a certain version is among them.
func (h *History[T]) Versions() []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.versions)
}

// Until waits until one of the versions fulfils the condition, and returns all up
// to and including it.
func (h *History[T]) Until(t testing.TB, what string, condition func(T) bool) []T {
	t.Helper()
	limit := time.After(patience)
	for {
		h.mu.Lock()
		versions, grown := slices.Clone(h.versions), h.grown
		h.mu.Unlock()
		if at := slices.IndexFunc(versions, condition); at >= 0 {
			return versions[:at+1]
		}
		select {
		case <-grown:
		case <-limit:
			t.Fatalf("no version within %v: %s (%d versions seen)", patience, what, len(versions))
		}
	}
}

// To waits for a version that was read, and returns all up to it.
func (h *History[T]) To(t testing.TB, last T) []T {
	t.Helper()
	return h.Until(t, "version "+last.GetResourceVersion()+" of "+last.GetName(), func(version T) bool {
		return version.GetUID() == last.GetUID() && version.GetResourceVersion() == last.GetResourceVersion()
	})
}
