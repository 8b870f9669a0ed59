package soak

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

// team is two managers, of which one leads. Whoever ends is replaced at once.
type team struct {
	c          *cluster.Cluster
	kubeconfig string

	mu                   sync.Mutex
	members              [2]*manager.Manager
	kills, leaders, lost int
}

func newTeam(t *testing.T, c *cluster.Cluster) *team {
	t.Helper()
	team := &team{c: c, kubeconfig: c.Kubeconfig(t, "drydock")}
	for n := range team.members {
		team.launch(t, n)
	}
	t.Cleanup(func() {
		for n, member := range team.members {
			member.Kill()
			if t.Failed() {
				t.Logf("the log of manager %d:\n%s", n+1, member.Log())
			}
		}
	})
	return team
}

func (s *team) launch(t *testing.T, n int) {
	t.Helper()
	m, err := manager.Launch(s.kubeconfig, "--log-level", "info")
	if err != nil {
		t.Error(err) // not Fatal: kills come from goroutines of their own
		return
	}
	s.members[n] = m
}

// kill ends one at whatever instruction it is.
func (s *team) kill(t *testing.T, leader bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	victim := max(0, slices.IndexFunc(s.members[:], func(m *manager.Manager) bool { return m.Leads() == leader }))
	if s.members[victim].Leads() {
		s.leaders++
	}
	s.kills++
	s.members[victim].Kill()
	s.launch(t, victim)
}

// alive checks that nobody has ended but by losing the lease, which is how a manager that
// was not given the processor for ten seconds must end, and waits until both are ready.
func (s *team) alive(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, member := range s.members {
		select {
		case <-member.Ended():
			if !strings.Contains(member.Log(), "lease was lost") {
				t.Errorf("manager %d ended by itself:\n%s", n+1, member.Log())
			}
			s.lost++
			s.launch(t, n)
		default:
		}
		if _, err := s.members[n].AwaitLine(func(l manager.Line) bool { return l.Message == "ready" }); err != nil {
			t.Error(err)
		}
	}
}

// figures are what must not grow.
type figures struct {
	// watches are those that the API server serves, whoever asked: nobody else's number
	// changes while no test looks.
	watches float64
	members [2]process
}

// process is one manager at rest.
type process struct {
	pid                              int
	leads                            bool
	goroutines, heap, resident, open float64
}

func (f figures) String() string {
	text := fmt.Sprintf("%.0f watches at the API server", f.watches)
	for n, p := range f.members {
		role := "waiting"
		if p.leads {
			role = "leading"
		}
		text += fmt.Sprintf("; manager %d (%s): %.0f goroutines, live heap %.1f MiB, resident %.1f MiB, %.0f open files", n+1, role, p.goroutines, p.heap/(1<<20), p.resident/(1<<20), p.open)
	}
	return text
}

func (s *team) measure(t *testing.T) figures {
	t.Helper()
	var f figures
	page, err := s.c.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range parse(string(page)) {
		if strings.HasPrefix(name, "apiserver_longrunning_requests{") && strings.Contains(name, `verb="WATCH"`) {
			f.watches += value
		}
	}
	for n, member := range s.members {
		_, page := member.Get(t, "metrics", "/metrics")
		read := parse(page)
		f.members[n] = process{
			pid: member.PID(), leads: read["drydock_leader"] == 1,
			goroutines: read["go_goroutines"],
			// The next collection comes when the heap has doubled: this is what was alive at
			// the last, without the garbage since.
			heap:     read["go_memstats_next_gc_bytes"] / 2,
			resident: read["process_resident_memory_bytes"], open: read["process_open_fds"],
		}
	}
	return f
}

// parse reads a page of metrics: what is before the last blank of a line, by value.
func parse(page string) map[string]float64 {
	found := map[string]float64{}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndexByte(line, ' '); at > 0 && !strings.HasPrefix(line, "#") {
			if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
				found[line[:at]] = value
			}
		}
	}
	return found
}

// What a manager may have more than before, at rest: connections and workers come and go,
// and a heap is measured when the collector happens to run.
const (
	moreGoroutines = 15
	moreWatches    = 3
	moreHeap       = 8 << 20
)

// compare waits until nothing has grown since, and prints both.
func (s *team) compare(t *testing.T, before figures) {
	t.Helper()
	var after figures
	defer func() { t.Logf("before: %s", before); t.Logf("after:  %s", after) }()
	s.c.Eventually(t, "what the managers use is back to what it was", func(context.Context) error {
		after = s.measure(t)
		if after.watches > before.watches+moreWatches {
			return fmt.Errorf("%.0f watches, %.0f before", after.watches, before.watches)
		}
		for n, now := range after.members {
			then := before.members[n]
			switch {
			case now.pid != then.pid || now.leads != then.leads:
				continue // another process, or one with more to do
			case now.goroutines > then.goroutines+moreGoroutines:
				return fmt.Errorf("manager %d: %.0f goroutines, %.0f before", n+1, now.goroutines, then.goroutines)
			case now.heap > then.heap*1.25+moreHeap:
				return fmt.Errorf("manager %d: a live heap of %.0f bytes, %.0f before", n+1, now.heap, then.heap)
			}
		}
		return nil
	})
}
