package maintenance

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// told remembers which events about things that last were told: an invalid request, an
// unknown strategy, a foreign marker, a move. Their objects change all the time.
type told struct {
	mu sync.Mutex
	// seen is by object: a VM, or a node, which has no namespace.
	seen map[types.NamespacedName]map[telling]bool
}

type telling struct {
	// uid tells a VM from an earlier one of its name.
	uid         types.UID
	maintenance string
	reason      plan.EventReason
	once        string
}

// split takes out the events about things that last, without those that were told
// before. They are true whether the plan can be carried out or not.
func (t *told) split(node string, events []plan.Event) (lasting, transitions []plan.Event) {
	for _, event := range events {
		switch {
		case event.Once == "":
			transitions = append(transitions, event)
		case t.first(node, event):
			lasting = append(lasting, event)
		}
	}
	return lasting, transitions
}

// first reports whether an event is to be told.
func (t *told) first(node string, event plan.Event) bool {
	object := types.NamespacedName{Name: node}
	key := telling{maintenance: event.Maintenance, reason: event.Reason, once: event.Once}
	switch {
	case event.VM != nil:
		object, key.uid = types.NamespacedName{Namespace: event.VM.Namespace, Name: event.VM.Name}, event.VM.UID
	case event.VMI != nil:
		object, key.uid = types.NamespacedName{Namespace: event.VMI.Namespace, Name: event.VMI.Name}, event.VMI.UID
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen[object][key] {
		return false
	}
	if t.seen == nil {
		t.seen = map[types.NamespacedName]map[telling]bool{}
	}
	if t.seen[object] == nil {
		t.seen[object] = map[telling]bool{}
	}
	if key.maintenance != "" {
		// A VM may live through any number of them.
		maps.DeleteFunc(t.seen[object], func(other telling, _ bool) bool {
			return other.maintenance != "" && other.maintenance != key.maintenance
		})
	}
	t.seen[object][key] = true
	return true
}

// forget drops what was told of an object that is gone, or of which nothing lasts.
func (t *told) forget(object types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.seen, object)
}
