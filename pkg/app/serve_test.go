package app

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

// A server that ends by itself ends the process, one that is told to end does not.
func TestAServerThatEndsEndsTheProcess(t *testing.T) {
	m := &manager{}
	told, tell := context.WithCancel(t.Context())
	m.tasks = &errgroup.Group{}
	if err := m.serve(told, "health", "127.0.0.1:0", http.NotFoundHandler()); err != nil {
		t.Fatal(err)
	}
	tell()
	if err := m.tasks.Wait(); err != nil {
		t.Errorf("told to end, it failed with %v", err)
	}
	if err := served("health", net.ErrClosed); err == nil || !strings.Contains(err.Error(), "serving health: ") {
		t.Errorf("it ended by itself with %v", err)
	}
}

// Readiness shows why nothing is done; what else it shows is no reason for it.
func TestWhyNothingIsDoneIsTheGatesToSay(t *testing.T) {
	m := &manager{ready: &readiness{}}
	g := m.newGate(nil)
	m.ready.note(func() string { return "something else" })
	body := func() string {
		w := httptest.NewRecorder()
		m.ready.ServeHTTP(w, nil)
		return w.Body.String()
	}
	if idle, answer := g.Idle(), body(); idle != "" || answer != "ok\nsomething else\n" {
		t.Errorf("at work it is idle: %q, and readiness says %q", idle, answer)
	}
	g.idle = true
	if idle, answer := g.Idle(), body(); idle != idleNote || answer != "ok\n"+idleNote+"\nsomething else\n" {
		t.Errorf("idle: %q, and readiness says %q", idle, answer)
	}
	m.ready.set("caches")
	if answer := body(); answer != "waiting for caches\n" {
		t.Errorf("not ready it says %q", answer)
	}
}
