package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// readiness is what /readyz says: what the manager still waits for.
type readiness struct {
	mu      sync.Mutex
	waiting string
	others  []func() string
	notes   []func() string
}

// also asks what another part is waiting for, "" for nothing.
func (r *readiness) also(waiting func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.others = append(r.others, waiting)
}

func (r *readiness) set(waiting string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if waiting != "" && waiting != r.waiting {
		logrus.Infof("waiting for %s", waiting)
	}
	r.waiting = waiting
}

// note adds a line to the answer of a manager that is ready, "" for none.
func (r *readiness) note(line func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, line)
}

func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	waiting, others, notes := r.waiting, r.others, r.notes
	r.mu.Unlock()
	for _, other := range others {
		if waiting == "" {
			waiting = other()
		}
	}
	if waiting != "" {
		http.Error(w, "waiting for "+waiting, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
	for _, note := range notes {
		if line := note(); line != "" {
			fmt.Fprintln(w, line)
		}
	}
}

func healthMux(ready *readiness) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /readyz", ready)
	return mux
}

// serve serves until the context ends; the address "0" serves nothing. It returns once
// the address is bound.
func (m *manager) serve(ctx context.Context, name, address string, handler http.Handler) error {
	if address == "0" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--%s-bind-address: %w", name, err)
	}
	logrus.WithField("address", listener.Addr().String()).Infof("serving %s", name)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	m.tasks.Go(func() error { return served(name, server.Serve(listener)) })
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}

// served returns the error of a server that ended by itself.
func served(name string, err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving %s: %w", name, err)
}
