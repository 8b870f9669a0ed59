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
	mu   sync.Mutex
	seen map[telling]bool
}

type telling struct {
	// object is a VM, or a node, which has no namespace.
	object types.NamespacedName
	// uid tells a VM from an earlier one of its name.
	uid    types.UID
	reason plan.EventReason
	once   string
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
	key := telling{object: types.NamespacedName{Name: node}, reason: event.Reason, once: event.Once}
	switch {
	case event.VM != nil:
		key.object, key.uid = types.NamespacedName{Namespace: event.VM.Namespace, Name: event.VM.Name}, event.VM.UID
	case event.VMI != nil:
		key.object, key.uid = types.NamespacedName{Namespace: event.VMI.Namespace, Name: event.VMI.Name}, event.VMI.UID
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen[key] {
		return false
	}
	if t.seen == nil {
		t.seen = map[telling]bool{}
	}
	t.seen[key] = true
	return true
}

// forget drops what was told of an object that is gone, or of which nothing lasts.
func (t *told) forget(object types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.seen, func(key telling, _ bool) bool { return key.object == object })
}
