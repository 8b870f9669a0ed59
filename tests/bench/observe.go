package main

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
)

// observer watches a measurement as the administrator, so that nothing of it counts
// among a tool's requests. Its times are when it heard: the timestamps in the objects
// have only whole seconds, a tenth of a short migration.
type observer struct {
	mu      sync.Mutex
	changed chan struct{}
	// on is where each VM is.
	on    map[string]string
	moves map[types.UID]*move
	// marked is when a VM was last marked for evacuation.
	marked map[string]time.Time
	nodes  map[string]*stations
}

// stations are a node's.
type stations struct{ cordoned, empty, completed time.Time }

// move is one migration.
type move struct {
	vm string
	// marked, created: the VM was marked for evacuation, the migration exists.
	marked, created time.Time
	// held is when the migration took a slot: KubeVirt counts it once its target pod
	// exists. released is when it had ended.
	held, released time.Time
	// started and ended bound the guest's own move.
	started, ended time.Time
	succeeded      bool
}

func observe(t *attempt, c *cluster.Cluster, namespace string, nodes []string) *observer {
	o := &observer{
		changed: make(chan struct{}), on: map[string]string{}, marked: map[string]time.Time{},
		moves: map[types.UID]*move{}, nodes: map[string]*stations{},
	}
	for _, node := range nodes {
		o.nodes[node] = &stations{}
	}
	virt := c.KubeVirt.KubevirtV1()
	follow(t, o, virt.VirtualMachineInstances(namespace), o.vmi)
	follow(t, o, virt.VirtualMachineInstanceMigrations(namespace), o.migration)
	follow(t, o, c.Kube.CoreV1().Pods(namespace), o.pod)
	follow(t, o, c.Kube.CoreV1().Nodes(), o.node)
	return o
}

// lister is what every typed client of one kind can do.
type lister[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// follow calls heard with each version of each object, and returns when it has seen
// those that exist.
func follow[L runtime.Object, T runtime.Object](t *attempt, o *observer, client lister[L], heard func(now time.Time, object T, gone bool)) {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: client.Watch,
	}
	tell := func(object any, gone bool) {
		known, ok := object.(T)
		if !ok {
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		heard(time.Now(), known, gone)
		close(o.changed)
		o.changed = make(chan struct{})
	}
	var kind T
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: kind,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { tell(object, false) },
			UpdateFunc: func(_, object any) { tell(object, false) },
			DeleteFunc: func(object any) { tell(object, true) },
		},
	})
	go informer.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatalf("watching %T: %v", kind, t.Context().Err())
	}
}

func (o *observer) vmi(now time.Time, vmi *virtv1.VirtualMachineInstance, gone bool) {
	if mark := vmi.Status.EvacuationNodeName; mark == "" {
		delete(o.marked, vmi.Name)
	} else if _, ok := o.marked[vmi.Name]; !ok {
		o.marked[vmi.Name] = now
	}
	if state := vmi.Status.MigrationState; state != nil && state.MigrationUID != "" {
		m := o.move(state.MigrationUID)
		if state.StartTimestamp != nil {
			once(&m.started, now)
		}
		if state.EndTimestamp != nil {
			once(&m.ended, now)
		}
	}
	before, after := o.on[vmi.Name], vmi.Status.NodeName
	if gone {
		after = ""
	}
	o.on[vmi.Name] = after
	if node := o.nodes[before]; node != nil && before != after && !o.anyOn(before) {
		node.empty = now
	}
}

func (o *observer) anyOn(node string) bool {
	for _, on := range o.on {
		if on == node {
			return true
		}
	}
	return false
}

func (o *observer) migration(now time.Time, m *virtv1.VirtualMachineInstanceMigration, _ bool) {
	seen := o.move(m.UID)
	seen.vm = m.Spec.VMIName
	once(&seen.created, now)
	if seen.marked.IsZero() {
		seen.marked = o.marked[m.Spec.VMIName]
	}
	if m.IsFinal() {
		once(&seen.released, now)
		seen.succeeded = m.Status.Phase == virtv1.MigrationSucceeded
	}
}

func (o *observer) pod(now time.Time, pod *corev1.Pod, _ bool) {
	if uid := pod.Labels[virtv1.MigrationJobLabel]; uid != "" {
		once(&o.move(types.UID(uid)).held, now)
	}
}

func (o *observer) node(now time.Time, node *corev1.Node, _ bool) {
	s := o.nodes[node.Name]
	if s == nil {
		return
	}
	if node.Spec.Unschedulable {
		once(&s.cordoned, now)
	}
	if maintenance.PhaseOf(node) == maintenance.PhaseCompleted {
		once(&s.completed, now)
	}
}

func (o *observer) move(uid types.UID) *move {
	m := o.moves[uid]
	if m == nil {
		m = &move{}
		o.moves[uid] = m
	}
	return m
}

func once(at *time.Time, now time.Time) {
	if at.IsZero() {
		*at = now
	}
}

// await returns when the condition holds for every node.
func (o *observer) await(t *attempt, limit time.Duration, what string, condition func(name string, s *stations) bool) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		o.mu.Lock()
		waiting, changed := "", o.changed
		for name, s := range o.nodes {
			if !condition(name, s) {
				waiting = name
			}
		}
		o.mu.Unlock()
		if waiting == "" {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %s", waiting, limit, what)
		}
	}
}
