// Package e2e holds whole stories: the real manager, as its user starts it, against a
// real control plane with simulated hosts. Tests run in parallel on one cluster, each
// with hosts of its own, so everything is awaited and nothing is slept for.
package e2e

import (
	"flag"
	"os"
	"path/filepath"
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
	if os.Getenv(cluster.EnvStateDir) == "" {
		// The stories are told by a manager with the rights of an installation. A cluster of
		// somebody's own may have no log of what that account does.
		if err := os.Setenv(cluster.EnvManifest, filepath.Join("..", "..", "deploy", "drydock.yaml")); err != nil {
			panic(err)
		}
	}
	code := cluster.Main(m)
	shared.End()
	manager.Remove()
	os.Exit(code)
}

// shared is told of a label that is copied beside the strategy.
var shared = manager.Shared{Flags: []string{"--label-sync-keys", listed}}

const listed = "test.drydock.dev/listed"

// drydock returns the cluster with the manager running on it.
func drydock(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.For(t)
	shared.Of(t, c, nil)
	return c
}
