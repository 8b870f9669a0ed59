package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sirupsen/logrus"
)

// readiness is what /readyz says: what the manager still waits for.
type readiness struct {
	mu      sync.Mutex
	waiting string
	detail  string
	others  []func() string
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

// note adds a detail to the answer of a manager that is ready, "" for none.
func (r *readiness) note(detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.detail = detail
}

func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	waiting, detail, others := r.waiting, r.detail, r.others
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
	if detail != "" {
		fmt.Fprintln(w, detail)
	}
}

func healthMux(ready *readiness) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /readyz", ready)
	return mux
}

// metrics are those of the manager as a whole.
type metrics struct {
	registry *prometheus.Registry
	leader   prometheus.Gauge
	idle     prometheus.Gauge
	due      *prometheus.GaugeVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		leader:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "drydock_leader", Help: "1 while this replica is the one that acts."}),
		idle:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "drydock_idle", Help: "1 while nothing is done because Harvester's own controllers run, see --harvester."}),
		due: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "drydock_vm_start_due", Help: "1 for each VM that Drydock stopped, that is due to be started and is not started yet. There are as many as VMs in that state."},
			[]string{"namespace", "name"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "drydock_build_info", Help: "Always 1; the version is a label.", ConstLabels: prometheus.Labels{"version": version()}})
	build.Set(1)
	m.registry.MustRegister(m.leader, m.idle, m.due, build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return mux
}

// serve serves until the context ends; the address "0" serves nothing. It returns once
// the address is bound.
func serve(ctx context.Context, name, address string, handler http.Handler) error {
	if address == "0" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--%s-bind-address: %w", name, err)
	}
	logrus.WithField("address", listener.Addr().String()).Infof("serving %s", name)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logrus.WithError(err).Errorf("serving %s", name)
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}
