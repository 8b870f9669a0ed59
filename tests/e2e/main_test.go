// Package e2e holds whole stories: the real manager, as its user starts it, against a
// real control plane with simulated hosts. Tests run in parallel on one cluster, each
// with hosts of its own, so everything is awaited and nothing is slept for.
package e2e

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

func TestMain(m *testing.M) {
	// Tests wait far more than they compute, so many run side by side whatever the
	// number of cores; the command line still overrides it.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	code := cluster.Main(m)
	manager.Remove()
	if shared.kubeconfig != "" {
		_ = os.Remove(shared.kubeconfig)
	}
	os.Exit(code)
}

// shared is the manager that the tests of this package share. None of them kills it:
// what it had not told yet would be missed by another.
var shared struct {
	mu         sync.Mutex
	manager    *manager.Manager
	kubeconfig string
}

// drydock returns the cluster with the manager running on it.
func drydock(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.For(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.manager == nil {
		launch(t, c)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the manager's log:\n%s", tail(shared.manager.Log(), 200))
		}
	})
	return c
}

func launch(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if shared.kubeconfig == "" {
		// The file must outlive the test that happens to be the first.
		content, err := os.ReadFile(c.Kubeconfig(t, "drydock"))
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.CreateTemp("", "drydock-*.kubeconfig")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		shared.kubeconfig = file.Name()
	}
	m, err := manager.Launch(shared.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.AwaitLeading(); err != nil {
		t.Fatal(err)
	}
	shared.manager = m
}

func tail(log string, lines int) string {
	all := strings.Split(log, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
