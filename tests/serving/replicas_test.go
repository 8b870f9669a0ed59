package serving

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/webhooks"
)

// A replica that is told to end finishes what it has begun, and takes what still comes
// until everybody knows.
func TestNothingIsRefusedWhileReplicasAreReplaced(t *testing.T) {
	c, managers, writes, connections := underLoad(t)
	connections.none(t)
	for round := range 2 {
		old := managers[round]
		fresh := replicas(t, c, 1)[0]
		managers = append(managers, fresh)
		webhooks.Behind(t, c, managers[round:]...)
		if _, err := old.Terminate(); err != nil {
			t.Fatal(err)
		}
		webhooks.Behind(t, c, managers[round+1:]...)
		writes.goesOn(t, c, 20)
	}
	writes.none(t)
}

// What was on its way to a replica that is killed may be refused, and nothing else: each
// client has at most one such write.
func TestWritesGoOnWhenAReplicaIsKilled(t *testing.T) {
	c, managers, writes, _ := underLoad(t)
	managers[0].Kill()
	awaitQuiet(t, c, writes)
	_, refusals := writes.end()
	for _, err := range refusals {
		if !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("refused for another reason: %v", err)
		}
	}
	t.Logf("%d writes were refused", len(refusals))
	if _, err := managers[1].AwaitLine(func(l manager.Line) bool { return l.Message == "leading" }); err != nil {
		t.Error(err)
	}
}

// awaitQuiet waits until a hundred writes in a row have passed.
func awaitQuiet(t *testing.T, c *cluster.Cluster, s *stream) {
	t.Helper()
	passed, refused := s.count()
	seen := len(refused)
	c.Eventually(t, "a hundred writes pass in a row", func(context.Context) error {
		now, refusals := s.count()
		if len(refusals) != seen {
			passed, seen = now, len(refusals)
		}
		if now < passed+100 {
			return fmt.Errorf("%w: %d have passed", errors.Join(errWaiting, errors.Join(refusals...)), now-passed)
		}
		return nil
	})
}
