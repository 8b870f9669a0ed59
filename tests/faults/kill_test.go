package faults

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

// The manager is killed at every single write that it makes, from the request to the
// last restart, once before the write reaches the API server and once after: a new one
// goes on each time, and in the end nothing shows it.
func TestAManagerKilledAtEveryWriteFinishesTheJob(t *testing.T) {
	for name, forwarded := range map[string]bool{"before the write": false, "after the write": true} {
		t.Run(name, func(t *testing.T) {
			c := cluster.For(t)
			s, p := newStory(t, c), newProxy(t, c)
			k := &killer{t: t, proxy: p, done: make(chan struct{}), forwarded: forwarded}
			k.begin()
			t.Cleanup(func() {
				k.end()
				if t.Failed() {
					t.Logf("the last manager's log:\n%s", k.last.Log())
				}
			})
			s.request(t)
			s.awaitCompleted(t)
			s.leave(t)
			s.awaitOut(t)
			k.end()
			s.checkOnce(t)
			if k.kills < 10 {
				t.Errorf("the manager was killed %d times: that is not every write", k.kills)
			}
			t.Logf("%d managers were killed", k.kills)
		})
	}
}

// killer lets each manager make one write, or none when what it tries is not
// forwarded; of two managers that try the same write, the second may make it.
type killer struct {
	t         *testing.T
	proxy     *proxy
	forwarded bool
	kills     int
	done      chan struct{}
	victims   chan *manager.Manager
	ended     chan struct{}
	once      sync.Once
	last      *manager.Manager
}

func (k *killer) begin() {
	k.victims = make(chan *manager.Manager)
	k.ended = make(chan struct{})
	refused := map[string]bool{}
	// Only one manager lives at a time, so this runs for one write after the other but
	// for those that one manager makes at once; the gate makes those wait for its end.
	gate := make(chan struct{}, 1)
	gate <- struct{}{}
	k.proxy.set(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		select {
		case <-gate:
		case <-r.Context().Done():
			hangUp()
		case <-k.done:
			forward.ServeHTTP(w, r)
			return
		}
		defer func() { gate <- struct{}{} }()
		if r.Context().Err() != nil {
			hangUp()
		}
		what := r.Method + " " + r.URL.Path
		if !k.forwarded && refused[what] {
			delete(refused, what)
			forward.ServeHTTP(w, r)
			return
		}
		k.t.Logf("%s kill at %s", time.Now().Format("05.000"), what)
		refused[what] = true
		if k.forwarded {
			forward.ServeHTTP(httptest.NewRecorder(), r)
		}
		select {
		case victim := <-k.victims:
			victim.Kill()
		case <-k.done:
		}
		hangUp()
	})
	go k.keepAlive()
}

// keepAlive starts a manager whenever the last one was killed.
func (k *killer) keepAlive() {
	defer close(k.ended)
	for {
		m, err := manager.Launch(k.proxy.kubeconfig, "--leader-elect=false")
		if err != nil {
			k.t.Error(err)
			return
		}
		k.last = m
		select {
		case k.victims <- m:
			k.kills++
			<-m.Ended()
		case <-m.Ended():
			select {
			case <-k.done:
			default:
				k.t.Errorf("a manager ended by itself:\n%s", m.Log())
			}
			return
		case <-k.done:
			m.Kill()
			return
		}
	}
}

func (k *killer) end() {
	k.once.Do(func() { close(k.done) })
	<-k.ended
}

// The manager is killed once, at its n-th write, for every n: the full matrix is for
// `make faults`, since it takes minutes.
func TestAManagerKilledOnceAtTheNthWrite(t *testing.T) {
	most, err := strconv.Atoi(os.Getenv("DRYDOCK_SOAK_WRITES"))
	if err != nil {
		t.Skip("set DRYDOCK_SOAK_WRITES to the number of writes, as make faults does")
	}
	for n := range most {
		t.Run(strconv.Itoa(n+1), func(t *testing.T) {
			c := cluster.For(t)
			s, p := newStory(t, c), newProxy(t, c)
			first, err := manager.Launch(p.kubeconfig, "--leader-elect=false")
			if err != nil {
				t.Fatal(err)
			}
			defer first.Kill()
			killed := make(chan struct{})
			p.set(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
				if p.count() < n+1 {
					forward.ServeHTTP(w, r)
					return
				}
				p.set(nil)
				forward.ServeHTTP(httptest.NewRecorder(), r)
				first.Kill()
				close(killed)
				hangUp()
			})
			over, successor := make(chan struct{}), make(chan *manager.Manager, 1)
			go func() {
				defer close(successor)
				select {
				case <-killed:
					if m, err := manager.Launch(p.kubeconfig, "--leader-elect=false"); err == nil {
						successor <- m
					}
				case <-over:
				}
			}()
			defer func() {
				close(over)
				if m := <-successor; m != nil {
					m.Kill()
				}
			}()
			s.request(t)
			s.awaitCompleted(t)
			s.leave(t)
			s.awaitOut(t)
			s.checkOnce(t)
		})
	}
}
