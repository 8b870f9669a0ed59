package metrics

import (
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// State reads the caches.
type State struct {
	// Nodes are all nodes.
	Nodes func() ([]*corev1.Node, error)
	// VMs are those with a marker or with Drydock's record.
	VMs func() ([]*kubevirtv1.VirtualMachine, error)
	// VM observes what decides about a VM that Drydock stopped; nil when it has no record.
	VM func(vm *kubevirtv1.VirtualMachine) (*plan.Snapshot, *plan.StoppedVM, error)
	// Words are the vocabulary on nodes.
	Words maintenance.Vocabulary
}

// Show begins to make the series about nodes and VMs. They come from the caches and not
// from what this process does: every replica shows them, before and after it leads.
func (m *Metrics) Show(state State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = &state
}

// fate is what VMs on a node in maintenance are counted by.
type fate struct {
	verdict  plan.Verdict
	progress plan.Progress
}

// Planned counts the VMs on a node, as a plan has them; none when it is out of
// maintenance.
func (m *Metrics) Planned(node string, vms []plan.Fate) {
	counts := map[fate]int{}
	for n := range vms {
		counts[fate{vms[n].Verdict, vms[n].Progress}]++
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(counts) == 0 {
		delete(m.fates, node)
		return
	}
	m.fates[node] = counts
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	phaseDesc       = describe("drydock_node_maintenance_phase", "1 for the phase of each node that shows one. Error with status False is a refused request, with status True a drain that was given up.", "node", "phase", "status")
	phaseSinceDesc  = describe("drydock_node_maintenance_phase_start_time_seconds", "When the node came into its phase, in seconds since 1970.", "node", "phase")
	drainSinceDesc  = describe("drydock_node_drain_start_time_seconds", "When the drain of a node in maintenance began, or was resumed, in seconds since 1970.", "node")
	nodeVMsDesc     = describe("drydock_node_vms", "VMs on a node in maintenance, by what is decided about them and where they stand. Only the leader knows.", "node", "verdict", "progress")
	stoppedDesc     = describe("drydock_vms_stopped", "VMs that are off for the maintenance of a node, by when they are started again.", "node", "restart")
	dueDesc         = describe("drydock_vm_start_due", "1 for each VM that Drydock stopped, that is due to be started and is not started yet.", "namespace", "name")
	orphanDesc      = describe("drydock_vm_marker_orphaned", "1 for each VM whose marker names a node that is not in maintenance, without a record by which Drydock would start it.", "namespace", "name", "node")
	cacheDesc       = describe("drydock_cache_synced", "1 once the cache of a resource is filled.", "resource")
	certificateDesc = describe("drydock_certificate_expiry_timestamp_seconds", "When a certificate ends, in seconds since 1970.", "certificate")
)

// scrape makes the series that are not kept but read whenever somebody asks.
type scrape struct{ *Metrics }

// Describe implements prometheus.Collector.
func (s *scrape) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{phaseDesc, phaseSinceDesc, drainSinceDesc, nodeVMsDesc, stoppedDesc, dueDesc, orphanDesc, cacheDesc, certificateDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (s *scrape) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	state, caches, certificates := s.state, maps.Clone(s.caches), maps.Clone(s.certificates)
	s.mu.Unlock()
	for resource, synced := range caches {
		send(ch, cacheDesc, value(synced()), resource)
	}
	for name, notAfter := range certificates {
		if end := notAfter(); !end.IsZero() {
			send(ch, certificateDesc, seconds(end), name)
		}
	}
	if state == nil {
		return
	}
	nodes, err := state.Nodes()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(phaseDesc, err)
		return
	}
	byName := make(map[string]*corev1.Node, len(nodes))
	for _, node := range nodes {
		byName[node.Name] = node
		s.node(ch, node)
	}
	vms, err := state.VMs()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(stoppedDesc, err)
		return
	}
	state.machines(ch, vms, byName)
}

func (s *scrape) node(ch chan<- prometheus.Metric, node *corev1.Node) {
	if c := maintenance.Condition(node); c != nil {
		send(ch, phaseDesc, 1, node.Name, c.Reason, string(c.Status))
		send(ch, phaseSinceDesc, seconds(c.LastTransitionTime.Time), node.Name, c.Reason)
	}
	if record, err := maintenance.NodeRecordOf(node); err == nil && record != nil {
		send(ch, drainSinceDesc, seconds(record.Started.Time), node.Name)
	}
	if !s.leading.Load() {
		return
	}
	s.mu.Lock()
	counts := s.fates[node.Name]
	s.mu.Unlock()
	for f, count := range counts {
		send(ch, nodeVMsDesc, float64(count), node.Name, string(f.verdict), string(f.progress))
	}
}

// machines makes the series about VMs that are off for a maintenance.
func (s *State) machines(ch chan<- prometheus.Metric, vms []*kubevirtv1.VirtualMachine, nodes map[string]*corev1.Node) {
	type stop struct {
		node    string
		restart maintenance.RestartPoint
	}
	stopped := map[stop]int{}
	for _, vm := range vms {
		record, err := maintenance.VMRecordOf(vm)
		if err == nil && record != nil {
			stopped[stop{record.Node, record.Restart}]++
			if s.due(vm) {
				send(ch, dueDesc, 1, vm.Namespace, vm.Name)
			}
			continue
		}
		marker := vm.Annotations[maintenance.AnnotationMarker]
		if plan.ForeignMarker(s.Words, vm, nodes[marker]) != nil {
			send(ch, orphanDesc, 1, vm.Namespace, vm.Name, marker)
		}
	}
	for of, count := range stopped {
		send(ch, stoppedDesc, float64(count), of.node, string(of.restart))
	}
}

// due reports that a VM is to run again by now, as the leader decides. What cannot be
// decided is retried and logged there.
func (s *State) due(vm *kubevirtv1.VirtualMachine) bool {
	snapshot, stopped, err := s.VM(vm)
	if err != nil || stopped == nil {
		return false
	}
	p, err := plan.DecideVM(snapshot, stopped)
	return err == nil && p.Due
}

func send(ch chan<- prometheus.Metric, desc *prometheus.Desc, value float64, labels ...string) {
	metric, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	ch <- metric
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
