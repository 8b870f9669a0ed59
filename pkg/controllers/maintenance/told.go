package maintenance

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// told remembers what was told of things that stay as they are while their objects
// change all the time: an invalid request, an unknown strategy, a foreign marker.
// They are told once for each object and text.
type told struct {
	mu   sync.Mutex
	seen map[telling]bool
}

type telling struct {
	object types.UID
	text   string
}

// filter drops the events that were told before.
func (t *told) filter(node *corev1.Node, events []plan.Event) []plan.Event {
	return slices.DeleteFunc(events, func(event plan.Event) bool {
		switch event.Reason {
		case plan.EventBadRequest:
			return !t.first(node.UID, event.Message)
		case plan.EventVMUnknown, plan.EventVMForeign, plan.EventVMWaiting:
			return !t.first(event.VM.UID, event.Message)
		default:
			return false
		}
	})
}

func (t *told) first(object types.UID, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := telling{object, text}
	if t.seen[key] {
		return false
	}
	if t.seen == nil {
		t.seen = map[telling]bool{}
	}
	t.seen[key] = true
	return true
}
