// Package e2e holds whole stories: the real manager, as its user starts it, against a
// real control plane with simulated hosts. Tests run in parallel on one cluster, each
// with hosts of its own, so everything is awaited and nothing is slept for.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
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
	code := cluster.Main(runner{m})
	manager.Remove()
	os.Exit(code)
}

// runner ends the manager, and leaves the cluster as it was.
type runner struct{ *testing.M }

func (r runner) Run() int {
	code := r.M.Run()
	if c := shared.End(); c != nil {
		if err := operator.ConfigureMigrations(context.Background(), c, map[string]any{perCluster: nil}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// perCluster is how many migrations KubeVirt has at once. Tests side by side, of which some
// hold theirs for as long as they need, would starve one another with the usual five.
const perCluster = "parallelMigrationsPerCluster"

// shared is told of a label that is copied beside the strategy.
var shared = manager.Shared{Flags: []string{"--label-sync-keys", listed}}

const listed = "test.drydock.dev/listed"

// drydock returns the cluster with the manager running on it.
func drydock(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.For(t)
	shared.Of(t, c, func(*manager.Manager) {
		if err := operator.ConfigureMigrations(t.Context(), c, map[string]any{perCluster: 100}); err != nil {
			t.Fatal(err)
		}
	})
	return c
}
