package app

import (
	"context"
	"net"
	"net/http"
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
