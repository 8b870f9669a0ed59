package feed

import (
	"container/list"
	"sync"

	"github.com/drydock-dev/drydock/pkg/api/view"
)

// Reader is a queue between a feed and one client. The feed never waits for it. An object
// that changes again before its last change was taken is told once, as it is then: a
// client that reads seldom misses versions, never an object.
type Reader struct {
	limit int

	mu sync.Mutex
	// queue holds what is to be told, as *waiting, in the order of revisions; last is
	// where an object was put into it last.
	queue list.List
	last  map[subject]*list.Element
	// beyond counts those that the limit does not count.
	beyond  int
	overrun bool
	wake    chan struct{}
}

type subject struct {
	kind *view.Kind
	id   string
}

type waiting struct {
	Event
	beyond bool
}

// NewReader returns a reader that falls behind by the changes of at most limit objects.
func NewReader(limit int) *Reader {
	return &Reader{limit: limit, last: map[subject]*list.Element{}, wake: make(chan struct{}, 1)}
}

// offer reports whether the reader keeps up.
func (r *Reader) offer(event Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.overrun {
		r.add(waiting{Event: event})
		r.overrun = r.queue.Len()-r.beyond > r.limit
	}
	if r.overrun {
		r.clear()
	}
	r.signal()
	return !r.overrun
}

// catchUp adds an event beyond the limit: what a client has asked for at once it gets,
// be it a large cluster. They are versions that the feed holds anyway.
func (r *Reader) catchUp(event Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(waiting{Event: event, beyond: true})
	r.signal()
}

// add puts an event at the end, where its revision belongs, and takes away what it makes
// old news. Only that an object was gone in between is not.
func (r *Reader) add(w waiting) {
	about := subject{w.Kind, w.ID}
	if element, ok := r.last[about]; ok {
		before := element.Value.(*waiting) // only add fills the queue
		if before.Change != Removed || w.Change == Removed {
			if before.Change == Created && w.Change == Changed {
				w.Change = Created
			}
			w.beyond = w.beyond || before.beyond
			if before.beyond {
				r.beyond--
			}
			r.queue.Remove(element)
		}
	}
	if w.beyond {
		r.beyond++
	}
	r.last[about] = r.queue.PushBack(&w)
}

func (r *Reader) clear() {
	r.queue.Init()
	clear(r.last)
	r.beyond = 0
}

func (r *Reader) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Wake receives when there may be something to take.
func (r *Reader) Wake() <-chan struct{} { return r.wake }

// Take returns what has come since the last time, and whether the reader keeps up.
func (r *Reader) Take() (events []Event, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events = make([]Event, 0, r.queue.Len())
	for element := r.queue.Front(); element != nil; element = element.Next() {
		events = append(events, element.Value.(*waiting).Event) // only add fills the queue
	}
	r.clear()
	return events, !r.overrun
}
