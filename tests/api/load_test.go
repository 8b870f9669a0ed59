package api

import (
	"context"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
)

// The load of a large installation: as many front-ends as it has people, and scripts.
const (
	sockets   = 200
	perSecond = 200
	lasting   = 20 * time.Second
	envLoad   = "DRYDOCK_API_LOAD"
)

// TestLoad prints what 200 websockets and 200 actions a second cost. `make bench` runs it:
// it says nothing about right and wrong, but that every request is answered, and that a
// maintenance goes on meanwhile.
func TestLoad(t *testing.T) {
	if os.Getenv(envLoad) == "" {
		t.Skip("set " + envLoad + "=1, or run make bench")
	}
	h := serving(t)
	pool := h.Pool(t, 2)
	c := h.account(t, viewNodes, updateNodes)
	heard := followers(t, c)
	quiet := maintain(t, h, c, pool.Host(0))
	before, began := h.usage(t), time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		loaded := maintain(t, h, c, pool.Host(0))
		t.Logf("into maintenance and back: %s at rest, %s under load", quiet.Round(time.Millisecond), loaded.Round(time.Millisecond))
	})
	took, failed := fire(t, c, pool.Host(1))
	wg.Wait()
	half := h.usage(t)
	more, failedMore := fire(t, c, pool.Host(1))
	took, failed = append(took, more...), failed+failedMore
	slices.Sort(took)
	after := h.usage(t)
	t.Logf("the manager worked for %s in %s", (after.Processor - before.Processor).Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond))
	t.Logf("%d actions in twice %s: p50 %s, p99 %s, most %s; %d failed", len(took), lasting, took[len(took)/2], took[len(took)*99/100], took[len(took)-1], failed)
	t.Logf("%d websockets heard %d changes", sockets, heard.Load())
	t.Logf("resident memory: %d MiB before, %d MiB after %d actions, %d MiB after all", before.Resident>>20, half.Resident>>20, len(took)/2, after.Resident>>20)
	if failed > 0 {
		t.Errorf("%d requests failed", failed)
	}
}

// followers opens the websockets, which count what they hear.
func followers(t *testing.T, c *caller) *atomic.Int64 {
	t.Helper()
	heard := &atomic.Int64{}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	for range sockets {
		conn, status := dial(t, c)
		if conn == nil {
			t.Fatalf("a websocket is answered with %d", status)
		}
		follow(t, conn, `{"resourceType":"node","resourceVersion":"-1"}`)
		go func() {
			for {
				if _, _, err := conn.Read(ctx); err != nil {
					return
				}
				heard.Add(1)
			}
		}()
	}
	return heard
}

// fire asks for actions at an even pace, whether earlier ones are answered or not.
func fire(t *testing.T, c *caller, node string) (took []time.Duration, failed int64) {
	t.Helper()
	var (
		mu  sync.Mutex
		wg  sync.WaitGroup
		bad atomic.Int64
	)
	ticker := time.NewTicker(time.Second / perSecond)
	defer ticker.Stop()
	mix := []string{"maintenancePossible", "listUnhealthyVM", "maintenancePlan", "cordon", "uncordon"}
	for n := range int(lasting/time.Second) * perSecond {
		<-ticker.C
		wg.Go(func() {
			began := time.Now()
			// Two that cordon at once are told so; that is an answer.
			if a := c.act(t, node, mix[n%len(mix)], ""); a.status >= 500 || a.status == http.StatusUnauthorized || a.status == http.StatusForbidden {
				bad.Add(1)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
		})
	}
	wg.Wait()
	return took, bad.Load()
}

// maintain takes a node into maintenance and back.
func maintain(t *testing.T, h *house, c *caller, node string) time.Duration {
	t.Helper()
	began := time.Now()
	c.act(t, node, "enableMaintenanceMode", "").want(t, http.StatusNoContent)
	operator.AwaitPhase(t, h.Cluster, node, maintenance.PhaseCompleted)
	c.act(t, node, "disableMaintenanceMode", "").want(t, http.StatusNoContent)
	operator.AwaitOut(t, h.Cluster, node)
	return time.Since(began)
}

// usage is what the manager's process has of the machine.
func (h *house) usage(t *testing.T) manager.Usage {
	t.Helper()
	u, err := h.manager.Usage()
	if err != nil {
		t.Fatal(err)
	}
	return u
}
