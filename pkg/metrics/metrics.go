package metrics

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/clock"
)

// Metrics are those of one manager.
type Metrics struct {
	registry *prometheus.Registry
	clock    clock.PassiveClock
	leading  atomic.Bool
	counters

	mu sync.Mutex
	// state is where the series about nodes and VMs come from, nil until it is known.
	state *State
	// fates counts the VMs on a node in maintenance, as its latest plan has them.
	fates map[string]map[fate]int
	// again is when a node that was Completed began to be drained anew.
	again        map[string]time.Time
	caches       map[string]func() bool
	certificates map[string]func() time.Time
}

// counters are the series that this process adds to.
type counters struct {
	leader, idle, passedBy                                      prometheus.Gauge
	requests, refused, evictions, handled, clientRequests, sync *prometheus.CounterVec
	drains, phases, migrations, stops, clientLatency, webhook   *prometheus.HistogramVec
}

// Buckets, in seconds. A drain takes from seconds to a working day, an answer from less
// than a millisecond to the limits of those who ask.
var (
	longBuckets   = []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800}
	answerBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
)

// New returns the metrics of a manager of that version.
func New(version string, clock clock.PassiveClock) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), clock: clock,
		fates: map[string]map[fate]int{}, again: map[string]time.Time{},
		caches: map[string]func() bool{}, certificates: map[string]func() time.Time{},
	}
	m.leader = m.gauge("drydock_leader", "1 while this replica is the one that acts.")
	m.idle = m.gauge("drydock_idle", "1 while nothing is done because Harvester's own controllers run, see --harvester.")
	m.passedBy = m.gauge("drydock_requests_reach_harvester", "1 while new requests for maintenance reach Harvester's controllers in spite of --harvester=takeover, since the webhook that renames them is not registered, or not trusted.")
	m.requests = m.counter("drydock_maintenance_requests_total", "Requests for maintenance that were decided about, by outcome.", "outcome")
	m.refused = m.counter("drydock_maintenance_requests_refused_total", "Refused requests, once for each pre-check that refused.", "check")
	m.evictions = m.counter("drydock_evictions_total", "Evictions that were asked for, by kind of pod and by the answer's HTTP status. KubeVirt answers 429 when it will migrate a VM.", "kind", "code")
	m.handled = m.counter("drydock_vms_handled_total", "VMs that a maintenance is done with, by what was decided and how it ended.", "verdict", "outcome")
	m.clientRequests = m.counter("drydock_apiserver_requests_total", "Requests to the API server, watches included, by HTTP method and status.", "method", "code")
	m.sync = m.counter("drydock_label_sync_writes_total", "Writes of the label synchronisation, by kind of object and outcome.", "kind", "outcome")
	m.drains = m.histogram("drydock_drain_duration_seconds", "From the start of a drain to its end, by how it ended.", longBuckets, "outcome")
	m.phases = m.histogram("drydock_phase_duration_seconds", "How long nodes were in a phase that they have left.", longBuckets, "phase")
	m.migrations = m.histogram("drydock_migration_duration_seconds", "From the creation of a live migration for a maintenance to its end, by who made it and how it ended.", longBuckets, "means", "outcome")
	m.stops = m.histogram("drydock_vm_stop_duration_seconds", "From the deletion of the instance of a VM that is stopped for a maintenance until it is gone, by when the VM is started again.", longBuckets, "restart")
	m.clientLatency = m.histogram("drydock_apiserver_request_duration_seconds", "Answers of the API server, watches left out, by verb and resource.", answerBuckets, "verb", "resource")
	m.webhook = m.histogram("drydock_webhook_request_duration_seconds", "Answers of the admission webhooks, by path and verdict.", answerBuckets, "path", "verdict")
	m.begin()

	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "drydock_build_info", Help: "Always 1; the version is a label.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.registry.MustRegister(build, &scrape{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// gauge, counter and histogram make a metric of the registry.
func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.registry.MustRegister(gauge)
	return gauge
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	vector := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(vector)
	return vector
}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	vector := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(vector)
	return vector
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return mux
}

// Leading says whether this replica is the one that acts. What all replicas see is
// counted by that one alone.
func (m *Metrics) Leading(leading bool) {
	m.leading.Store(leading)
	m.leader.Set(value(leading))
}

// Idle says whether nothing is done because Harvester's own controllers run.
func (m *Metrics) Idle(idle bool) { m.idle.Set(value(idle)) }

// PassedBy says whether new requests reach Harvester's controllers although Drydock is to
// serve them.
func (m *Metrics) PassedBy(passedBy bool) { m.passedBy.Set(value(passedBy)) }

// LabelWritten counts a write of the label synchronisation.
func (m *Metrics) LabelWritten(kind string, err error) {
	m.sync.WithLabelValues(kind, writeOutcome(err)).Inc()
}

// Cache shows whether the cache of a resource is filled.
func (m *Metrics) Cache(resource string, synced func() bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.caches[resource] = synced
}

// Certificate shows when a certificate ends; the zero time stands for none.
func (m *Metrics) Certificate(name string, notAfter func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.certificates[name] = notAfter
}

func value(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
