// Package soak plays random maintenances over many hosts and VMs, while one manager after
// another is killed, for as long as one likes, and looks after each whether anything was
// lost, left behind, or has grown.
package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

func TestMain(m *testing.M) {
	code := cluster.Main(m)
	manager.Remove()
	os.Exit(code)
}

// Variables that `make soak` sets.
const (
	envDuration = "DRYDOCK_SOAK_DURATION"
	envSeed     = "DRYDOCK_SOAK_SEED"
)

// patience is how long a maintenance, or what follows it, may take: a leader that was
// killed is missed for a quarter of a minute, and that may happen several times.
const patience = 4 * time.Minute

// In the last third nobody is killed, so that processes live long enough for a leak to be
// seen.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv(envDuration))
	if err != nil {
		t.Skip("set " + envDuration + " to how long it may take, as make soak does")
	}
	seed := uint64(time.Now().UnixNano()) % 1e6
	if text := os.Getenv(envSeed); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %q is not a number", envSeed, text)
		}
	}
	t.Logf("seed %d: repeat with %s=%d", seed, envSeed, seed)
	c := cluster.For(t)
	w, managers := populate(t, c), newTeam(t, c)
	s := &soak{world: w, managers: managers, seed: seed}
	s.settle(t)

	began, calm, calmRounds := time.Now(), false, 0
	var before figures
	for number := 0; (time.Since(began) < length || calmRounds < 2) && !t.Failed(); number++ {
		if !calm && time.Since(began) > length*2/3 {
			calm = true
			before = managers.measure(t)
			t.Logf("nobody is killed from here on: %s", before)
		}
		s.play(t, number, !calm)
		if calm {
			calmRounds++
		}
	}
	s.tell(t)
	if t.Failed() {
		return
	}
	managers.compare(t, before)
}

// soak is what is going on.
type soak struct {
	world    *world
	managers *team
	seed     uint64

	mu             sync.Mutex
	rounds, visits int
	ends           map[string]int
	longest        time.Duration
	revived        int
}

// play plays a round and looks at everything after it.
func (s *soak) play(t *testing.T, number int, deadly bool) {
	t.Helper()
	r := draw(s.seed, number, deadly)
	t.Logf("round %d: %s", number, r)
	began := time.Now()
	s.world.begin(r)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var side sync.WaitGroup
	for _, v := range r.visits {
		side.Go(func() {
			end, err := s.visit(ctx, v, r.forces())
			if err != nil {
				t.Errorf("round %d: host %d: %v", number, v.host+1, err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.ends == nil {
				s.ends = map[string]int{}
			}
			s.ends[end]++
			s.visits++
		})
	}
	side.Go(func() {
		for _, k := range r.kills {
			if pause(ctx, k.after) == nil {
				s.managers.kill(t, k.leader)
			}
		}
	})
	side.Wait()
	s.settle(t)
	s.rounds++
	s.longest = max(s.longest, time.Since(began))
	s.revive(t, number)
}

// settle waits until everything is as it must be while no node is in maintenance.
func (s *soak) settle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		problems, err := s.world.wrong(ctx)
		if err == nil && len(problems) == 0 {
			break
		}
		if pause(ctx, 300*time.Millisecond) != nil {
			t.Fatalf("after %s: %v; %d things are wrong: %q", patience, err, len(problems), problems[:min(len(problems), 12)])
		}
	}
	s.managers.alive(t)
}

// revive starts what was stopped for good, and half of what its owner had stopped, so that
// the next rounds have VMs to deal with.
func (s *soak) revive(t *testing.T, number int) {
	t.Helper()
	stopped, byOwner, err := s.world.off(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n, vm := range byOwner {
		if (n+number)%2 == 0 {
			stopped = append(stopped, vm)
		}
	}
	for _, vm := range stopped {
		if err := s.world.power(t.Context(), vm); err != nil {
			t.Fatal(err)
		}
	}
	s.revived += len(stopped)
	s.world.end()
	s.settle(t)
}

// visit takes a host into maintenance and out again, and returns how far it came.
func (s *soak) visit(ctx context.Context, v visit, forces bool) (string, error) {
	host := s.world.pool.Host(v.host)
	request := map[string]string{maintenance.AnnotationRequested: "true"}
	if v.forced {
		request[maintenance.AnnotationForced] = "true"
	}
	err := errors.Join(pause(ctx, v.after), s.world.cordon(ctx, host, v.cordoned), s.world.annotate(ctx, host, request))
	if err != nil {
		return "failed", err
	}
	called := time.Now()
	for _, d := range v.deeds {
		if err := errors.Join(pause(ctx, d.after), s.do(ctx, host, d, forces)); err != nil {
			return "failed", err
		}
	}
	end := "called off"
	if v.cancel > 0 {
		err = pause(ctx, v.cancel-time.Since(called))
	} else {
		end, err = s.world.reached(ctx, host)
	}
	if err != nil {
		return "failed", err
	}
	return end, s.world.leave(ctx, host, v.cordoned)
}

func (s *soak) do(ctx context.Context, host string, d deed, forces bool) error {
	switch d.what {
	case relabel:
		return s.world.relabel(ctx, d.vm, d.strategy, forces)
	case power:
		return s.world.power(ctx, d.vm)
	case addForce:
		return s.world.annotate(ctx, host, map[string]string{maintenance.AnnotationForced: "true"})
	}
	return s.world.cordon(ctx, host, false)
}

func (s *soak) tell(t *testing.T) {
	t.Helper()
	t.Logf("%d rounds of %d maintenances (%v), the longest round took %s; %d managers killed, %d of them leading; %d ended by themselves, having lost the lease; %d VMs started again by their owners",
		s.rounds, s.visits, s.ends, s.longest.Round(time.Second), s.managers.kills, s.managers.leaders, s.managers.lost, s.revived)
}

// pause lets a random story go on for a while: what it meets is the point of it.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("the round took too long: %w", ctx.Err())
	case <-time.After(d):
		return nil
	}
}
