package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/tests/cluster"
)

func at(second float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(second * float64(time.Second)))
}

func TestUse(t *testing.T) {
	for _, c := range []struct {
		name       string
		busy       []span
		mean, full float64
	}{
		{"nothing", nil, 0, 0},
		{"both all the time", []span{{at(0), at(10)}, {at(0), at(4)}, {at(4), at(10)}}, 2, 1},
		{"one half of the time", []span{{at(0), at(5)}}, 0.5, 0},
		{"both for a fifth", []span{{at(0), at(6)}, {at(4), at(10)}}, 1.2, 0.2},
		{"what is outside does not count", []span{{at(-5), at(5)}, {at(9), at(20)}}, 0.6, 0},
	} {
		mean, full := use(c.busy, at(0), at(10), 2)
		if math.Abs(mean-c.mean) > 1e-9 || math.Abs(full-c.full) > 1e-9 {
			t.Errorf("%s: mean %v and full %v, want %v and %v", c.name, mean, full, c.mean, c.full)
		}
	}
}

func TestCount(t *testing.T) {
	r := count([]cluster.Request{
		{Verb: "watch", Resource: "pods"}, {Verb: "list", Resource: "pods"}, {Verb: "update", Resource: "leases"},
		{Verb: "create", Resource: "events"}, {Verb: "create", Resource: "pods", Subresource: "eviction"}, {Verb: "get", URI: "/apis?timeout=32s"},
	})
	if r.total != 4 || r.watches != 1 || r.leases != 1 {
		t.Errorf("%d requests, %d watches, %d leases; want 4, 1, 1", r.total, r.watches, r.leases)
	}
	if got, want := most(r.byWhat), "1 create events, 1 create pods/eviction, 1 get /apis, 1 list pods"; got != want {
		t.Errorf("by resource: %s, want %s", got, want)
	}
}

func TestParseScenario(t *testing.T) {
	for name, allowed := range map[string]time.Duration{"10x10": 50 * time.Second, "10x30": 150 * time.Second, "six": 48 * time.Second} {
		s, err := parseScenario(name)
		if err != nil || s.allowed() != allowed {
			t.Errorf("%s: %v allowed, %v; want %v", name, s.allowed(), err, allowed)
		}
	}
	for _, name := range []string{"", "10", "x", "0x3", "3x0"} {
		if _, err := parseScenario(name); err == nil {
			t.Errorf("%q is taken for a scenario", name)
		}
	}
}

// What was made is removed, last first, also when an attempt fails.
func TestTask(t *testing.T) {
	var done []string
	err := task(t.Context(), "outer", func(a *attempt) {
		a.Cleanup(func() { done = append(done, "first") })
		a.part("inner", func(a *attempt) {
			a.Cleanup(func() { done = append(done, "inner") })
			a.Fatalf("broken")
		})
		done = append(done, "never")
	})
	if err == nil || err.Error() != "outer: inner: broken" {
		t.Errorf("error %v", err)
	}
	if want := []string{"inner", "first"}; !slices.Equal(done, want) {
		t.Errorf("done %v, want %v", done, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = task(ctx, "interrupted", func(a *attempt) { cancel(); a.Fatalf("broken pipe") })
	if !errors.Is(err, errInterrupted) {
		t.Errorf("error %v, want %v", err, errInterrupted)
	}
}
