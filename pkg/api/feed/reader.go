package feed

import "sync"

// Reader is a queue between a feed and one client. The feed never waits for it.
type Reader struct {
	limit int

	mu     sync.Mutex
	events []Event
	// beyond counts the events that the limit does not count.
	beyond  int
	overrun bool
	wake    chan struct{}
}

// NewReader returns a reader that falls behind by at most limit events.
func NewReader(limit int) *Reader {
	return &Reader{limit: limit, wake: make(chan struct{}, 1)}
}

// offer reports whether the reader keeps up.
func (r *Reader) offer(event Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events)-r.beyond >= r.limit {
		r.overrun, r.events = true, nil
	}
	if !r.overrun {
		r.events = append(r.events, event)
	}
	r.signal()
	return !r.overrun
}

// catchUp adds an event beyond the limit: what a client has asked for at once it gets,
// be it a large cluster. They are versions that the feed holds anyway.
func (r *Reader) catchUp(event Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events, r.beyond = append(r.events, event), r.beyond+1
	r.signal()
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
	events, r.events, r.beyond = r.events, nil, 0
	return events, !r.overrun
}
