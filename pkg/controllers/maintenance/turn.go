package maintenance

import "sync"

// turn is taken by one pass at a time, and remembers the nodes whose passes came meanwhile.
// They are kept in memory alone: whoever leads next begins with a pass over every node.
type turn struct {
	mu     sync.Mutex
	taken  bool
	missed map[string]bool
}

// take reports whether the turn is the caller's. Otherwise the end of whose it is names
// the node.
func (t *turn) take(node string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taken {
		t.taken = true
		return true
	}
	if t.missed == nil {
		t.missed = map[string]bool{}
	}
	t.missed[node] = true
	return false
}

// end gives the turn back, and returns the nodes that missed it.
func (t *turn) end() map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	missed := t.missed
	t.taken, t.missed = false, nil
	return missed
}
