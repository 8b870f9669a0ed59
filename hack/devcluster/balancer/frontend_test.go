package balancer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// echo is a backend that says its name on every connection, then echoes.
type echo struct {
	name     string
	listener net.Listener
}

func newEcho(t *testing.T, name string) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{name: name, listener: listener}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close() //nolint:errcheck // a test
				_, _ = fmt.Fprintln(conn, e.name)
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return e
}

func (e *echo) target() Target { return Target{Address: e.listener.Addr().String()} }

func newFrontend(t *testing.T, targets ...Target) *Frontend {
	t.Helper()
	f, err := NewFrontend(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	f.SetTargets(targets)
	return f
}

// connect returns a connection and the name of the backend behind it, or "" if
// it was refused.
func connect(t *testing.T, f *Frontend) (net.Conn, *bufio.Reader, string) {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", f.Port()))
	if errors.Is(err, syscall.ECONNRESET) {
		return nil, nil, "" // so quick that the dialler already sees it
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	reader := bufio.NewReader(conn)
	name, err := reader.ReadString('\n')
	if err != nil {
		return conn, reader, ""
	}
	return conn, reader, name[:len(name)-1]
}

func names(t *testing.T, f *Frontend, n int) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for range n {
		_, _, name := connect(t, f)
		seen[name]++
	}
	return seen
}

func TestConnectionsGoRoundRobin(t *testing.T) {
	f := newFrontend(t, newEcho(t, "a").target(), newEcho(t, "b").target(), newEcho(t, "c").target())
	if seen := names(t, f, 9); seen["a"] != 3 || seen["b"] != 3 || seen["c"] != 3 {
		t.Errorf("nine connections went to %v, want three to each", seen)
	}
}

func TestABackendThatRefusesIsPassedOver(t *testing.T) {
	a, b := newEcho(t, "a"), newEcho(t, "b")
	f := newFrontend(t, a.target(), b.target())
	_ = a.listener.Close()
	if seen := names(t, f, 4); seen["b"] != 4 {
		t.Errorf("four connections went to %v, want all to b", seen)
	}
}

func TestWithoutBackendsConnectionsAreReset(t *testing.T) {
	f := newFrontend(t)
	if _, _, name := connect(t, f); name != "" {
		t.Errorf("a connection went to %q without any backend", name)
	}
}

func TestRemovedBackendKeepsOpenConnections(t *testing.T) {
	a, b := newEcho(t, "a"), newEcho(t, "b")
	f := newFrontend(t, a.target())
	conn, reader, name := connect(t, f)
	if name != "a" {
		t.Fatalf("connected to %q, want a", name)
	}
	f.SetTargets([]Target{b.target()})
	if seen := names(t, f, 2); seen["b"] != 2 {
		t.Errorf("new connections went to %v, want all to b", seen)
	}
	if _, err := fmt.Fprintln(conn, "still there?"); err != nil {
		t.Fatal(err)
	}
	if answer, err := reader.ReadString('\n'); err != nil || answer != "still there?\n" {
		t.Errorf("the open connection answers %q, %v", answer, err)
	}
}

func TestHalfClosedConnectionsDeliverTheRest(t *testing.T) {
	f := newFrontend(t, newEcho(t, "a").target())
	conn, reader, _ := connect(t, f)
	if _, err := fmt.Fprint(conn, "the last words"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(reader)
	if err != nil || string(rest) != "the last words" {
		t.Errorf("after the end of its input the backend's answer is %q, %v", rest, err)
	}
}

// switchable is a readiness URL that can be turned off.
func switchable(t *testing.T) (*atomic.Bool, string) {
	t.Helper()
	ready := &atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	return ready, server.URL
}

// eventually allows for a few readiness checks.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * checkEvery); !condition(); time.Sleep(checkEvery / 5) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", 20*checkEvery, what)
		}
	}
}

func TestReadinessDecides(t *testing.T) {
	a, b := newEcho(t, "a").target(), newEcho(t, "b").target()
	readyA, urlA := switchable(t)
	readyB, urlB := switchable(t)
	a.Readiness, b.Readiness = urlA, urlB
	readyA.Store(true)
	f := newFrontend(t, a, b)
	eventually(t, "all connections go to a, which alone is ready", func() bool { return names(t, f, 4)["a"] == 4 })
	readyB.Store(true)
	eventually(t, "both are used", func() bool { seen := names(t, f, 4); return seen["a"] == 2 && seen["b"] == 2 })
	readyA.Store(false)
	eventually(t, "all connections go to b", func() bool { return names(t, f, 4)["b"] == 4 })
	readyB.Store(false)
	eventually(t, "connections are refused", func() bool { return names(t, f, 2)[""] == 2 })
}

func TestTargets(t *testing.T) {
	for name, c := range map[string]struct {
		backends, readiness string
		want                []Target
		fails               bool
	}{
		"no backends":              {},
		"backends alone":           {backends: "a:1, b:2", want: []Target{{Address: "a:1"}, {Address: "b:2"}}},
		"by position":              {backends: "a:1,b:2", readiness: "u,v", want: []Target{{"a:1", "u"}, {"b:2", "v"}}},
		"fewer URLs than backends": {backends: "a:1,b:2", readiness: "u", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Targets(c.backends, c.readiness)
			if (err != nil) != c.fails {
				t.Fatalf("error %v, want one: %v", err, c.fails)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
