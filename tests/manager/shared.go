package manager

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/drydock-dev/drydock/tests/cluster"
)

// Shared is one manager that the tests of a package share. None of them kills it: what it
// had not told yet would be missed by another.
type Shared struct {
	// Flags are its own, beside those of Launch.
	Flags []string

	mu         sync.Mutex
	cluster    *cluster.Cluster
	manager    *Manager
	kubeconfig string
}

// Of returns the manager of a cluster. The first call starts it, and calls begun, which may
// be nil, once it leads. When a test has failed, the end of its log is in the test's.
func (s *Shared) Of(t testing.TB, c *cluster.Cluster, begun func(m *Manager)) *Manager {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.manager == nil {
		s.launch(t, c)
		if begun != nil {
			begun(s.manager)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the manager's log:\n%s", tail(s.manager.Log(), 200))
		}
	})
	return s.manager
}

func (s *Shared) launch(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	// The file must outlive the test that happens to be the first.
	content, err := os.ReadFile(c.Kubeconfig(t, "drydock"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp("", "drydock-*.kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	s.kubeconfig = file.Name()
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := Launch(s.kubeconfig, s.Flags...)
	if err != nil {
		t.Fatal(err)
	}
	s.cluster, s.manager = c, m
	if err := m.AwaitLeading(); err != nil {
		t.Fatal(err)
	}
}

// End ends the manager, if there is one, for TestMain, and returns its cluster.
func (s *Shared) End() *cluster.Cluster {
	if s.manager != nil {
		s.manager.Kill()
	}
	if s.kubeconfig != "" {
		_ = os.Remove(s.kubeconfig)
	}
	return s.cluster
}

func tail(log string, lines int) string {
	all := strings.Split(log, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
