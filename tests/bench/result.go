package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/tests/cluster"
)

// result is what was measured of one tool.
type result struct {
	tool string
	// wall is from the first request until the tool was done, and empty until no VM was
	// left.
	wall, empty time.Duration
	sent        requests
	// held and moving are the mean numbers of slots that KubeVirt counted as taken, and
	// of guests that moved, until no VM was left; full is how long all slots were taken.
	held, moving, full float64
	// twice is how many VMs moved more than once, failed how many moves failed.
	twice, failed int
	// cordoned is annotate → cordoned, and completed last VM gone → Completed, by node.
	cordoned, completed []time.Duration
}

// run measures one tool.
func (s *scene) run(t *attempt, tool tool, traced bool) result {
	drain := tool.prepare(t, s)
	audit := s.Audit(t, s.user)
	began := time.Now()
	drain()
	r := result{tool: tool.name, wall: time.Since(began)}
	s.settle(t)
	sent := audit.Requests(t)
	r.sent = count(sent)
	moves := s.read(&r, began)
	if traced {
		fmt.Printf("%s, %s:\n%s\n", s.scenario, tool.name, trace(moves, began))
	}
	s.keep(t, tool.user+".requests", requestLog(sent, began))
	return r
}

// read works out what the observer saw, and returns the moves in order.
func (s *scene) read(r *result, began time.Time) []move {
	s.observer.mu.Lock()
	defer s.observer.mu.Unlock()
	var last time.Time
	for _, name := range s.nodes {
		n := s.observer.nodes[name]
		if n.empty.After(last) {
			last = n.empty
		}
		r.cordoned = append(r.cordoned, n.cordoned.Sub(began))
		if !n.completed.IsZero() {
			r.completed = append(r.completed, n.completed.Sub(n.empty))
		}
	}
	r.empty = last.Sub(began)
	var moves []move
	succeeded := map[string]int{}
	for _, m := range s.observer.moves {
		moves = append(moves, *m)
		switch {
		case m.succeeded:
			succeeded[m.vm]++
		case !m.released.IsZero():
			r.failed++
		}
	}
	for _, times := range succeeded {
		if times > 1 {
			r.twice++
		}
	}
	slices.SortFunc(moves, func(a, b move) int { return a.created.Compare(b.created) })
	r.held, r.full = use(spans(moves, func(m move) (time.Time, time.Time) { return m.held, m.released }), began, last, s.slots())
	r.moving, _ = use(spans(moves, func(m move) (time.Time, time.Time) { return m.started, m.ended }), began, last, s.slots())
	return moves
}

// trace lists the stations of each move, in seconds since the beginning.
func trace(moves []move, began time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %8s %8s %8s %8s %8s %8s\n", "VM", "marked", "created", "held", "started", "ended", "released")
	for _, m := range moves {
		fmt.Fprintf(&b, "%-8s", m.vm)
		for _, at := range []time.Time{m.marked, m.created, m.held, m.started, m.ended, m.released} {
			if at.IsZero() {
				fmt.Fprintf(&b, " %8s", "-")
			} else {
				fmt.Fprintf(&b, " %8.2f", at.Sub(began).Seconds())
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// requests are what a user sent.
type requests struct {
	// total counts all but watches and leases, which cost the same however much is done.
	total, watches, leases int
	byVerb, byWhat         map[string]int
}

func count(list []cluster.Request) requests {
	r := requests{byVerb: map[string]int{}, byWhat: map[string]int{}}
	for _, request := range list {
		switch {
		case request.Verb == "watch":
			r.watches++
		case request.Resource == "leases":
			r.leases++
		default:
			r.total++
			r.byVerb[request.Verb]++
			r.byWhat[what(request)]++
		}
	}
	return r
}

func what(r cluster.Request) string {
	resource := r.Resource
	switch {
	case resource == "":
		path, _, _ := strings.Cut(r.URI, "?")
		resource = path
	case r.Subresource != "":
		resource += "/" + r.Subresource
	}
	return r.Verb + " " + resource
}

// most lists counts, the largest first.
func most(counts map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, 0, len(keys))
	for _, key := range keys {
		parts = append(parts, fmt.Sprintf("%d %s", counts[key], key))
	}
	return strings.Join(parts, ", ")
}

// requestLog lists requests with their seconds since the beginning.
func requestLog(sent []cluster.Request, began time.Time) string {
	var b strings.Builder
	for _, request := range sent {
		fmt.Fprintf(&b, "%8.3f %s\n", request.At.Sub(began).Seconds(), request)
	}
	return b.String()
}
