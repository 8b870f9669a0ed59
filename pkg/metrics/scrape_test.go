package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func at(t time.Time) (*Metrics, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(t)
	return New("v1", clock), clock
}

// node is one that shows a phase since noon; its record has the id "m".
func node(name string, phase maintenance.Phase, status corev1.ConditionStatus, record *maintenance.NodeRecord) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{}, Labels: map[string]string{kubevirtv1.NodeSchedulable: "true"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if phase != maintenance.PhaseNone {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: maintenance.ConditionType, Status: status, Reason: string(phase), LastTransitionTime: metav1.NewTime(noon)})
	}
	if record != nil {
		n.Annotations[maintenance.AnnotationNodeRecord] = record.Encode()
	}
	return n
}

// vm was stopped for a node, with the record as changed.
func vm(name, node string, change func(*maintenance.VMRecord)) *kubevirtv1.VirtualMachine {
	record := &maintenance.VMRecord{ID: "m", Node: node, NodeUID: types.UID(node), Restart: maintenance.RestartAfterDisable, Stopped: "old"}
	change(record)
	return &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name,
		Annotations: map[string]string{maintenance.AnnotationVMRecord: record.Encode(), maintenance.AnnotationMarker: node},
	}}
}

func as(*maintenance.VMRecord) {}

// afterEnable is stopped by consent, which no label changes.
func afterEnable(r *maintenance.VMRecord) {
	r.Restart, r.Source = maintenance.RestartAfterEnable, maintenance.SourceEvictionStrategy
}

func running(vm *kubevirtv1.VirtualMachine) *kubevirtv1.VirtualMachine {
	always := kubevirtv1.RunStrategyAlways
	vm.Spec.RunStrategy = &always
	return vm
}

// pinned is a VM that no node but its own can host.
func pinned(vm *kubevirtv1.VirtualMachine) *kubevirtv1.VirtualMachine {
	vm.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: kubevirtv1.VirtualMachineInstanceSpec{NodeSelector: map[string]string{corev1.LabelHostname: "in"}}}
	return vm
}

// want compares some of the metrics with their text.
func want(t *testing.T, m *Metrics, text string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(text), names...); err != nil {
		t.Error(err)
	}
}

func TestNodesAreShownAsTheyAreAndGoWithTheirSeries(t *testing.T) {
	m, _ := at(noon)
	m.Leading(true)
	nodes := []*corev1.Node{
		node("w1", maintenance.PhaseDraining, "True", &maintenance.NodeRecord{ID: "m", Started: metav1.NewTime(noon.Add(-time.Hour))}),
		node("w2", maintenance.PhaseError, "False", nil),
		node("w3", maintenance.PhaseNone, "", nil),
	}
	m.Show(State{Nodes: func() ([]*corev1.Node, error) { return nodes, nil }, VMs: func() ([]*kubevirtv1.VirtualMachine, error) { return nil, nil }})
	m.Planned("w1", []plan.Fate{{Verdict: plan.Move, Progress: plan.Migrating}, {Verdict: plan.Move, Progress: plan.Migrating}, {Verdict: plan.StopStayOff, Progress: plan.Held}})
	names := []string{"drydock_node_maintenance_phase", "drydock_node_maintenance_phase_start_time_seconds", "drydock_node_drain_start_time_seconds", "drydock_node_vms"}
	want(t, m, `
# HELP drydock_node_drain_start_time_seconds When the drain of a node in maintenance began, or was resumed, in seconds since 1970.
# TYPE drydock_node_drain_start_time_seconds gauge
drydock_node_drain_start_time_seconds{node="w1"} 1.8934956e+09
# HELP drydock_node_maintenance_phase 1 for the phase of each node that shows one. Error with status False is a refused request, with status True a drain that was given up.
# TYPE drydock_node_maintenance_phase gauge
drydock_node_maintenance_phase{node="w1",phase="Draining",status="True"} 1
drydock_node_maintenance_phase{node="w2",phase="Error",status="False"} 1
# HELP drydock_node_maintenance_phase_start_time_seconds When the node came into its phase, in seconds since 1970.
# TYPE drydock_node_maintenance_phase_start_time_seconds gauge
drydock_node_maintenance_phase_start_time_seconds{node="w1",phase="Draining"} 1.8934992e+09
drydock_node_maintenance_phase_start_time_seconds{node="w2",phase="Error"} 1.8934992e+09
# HELP drydock_node_vms VMs on a node in maintenance, by what is decided about them and where they stand. Only the leader knows.
# TYPE drydock_node_vms gauge
drydock_node_vms{node="w1",progress="Held",verdict="StopStayOff"} 1
drydock_node_vms{node="w1",progress="Migrating",verdict="Move"} 2
`, names...)
	nodes = nodes[2:]
	want(t, m, "", names...)
	m.Planned("w1", nil)
	if len(m.fates) > 0 {
		t.Errorf("what was planned for a node that is gone is kept: %v", m.fates)
	}
}

func TestVMsThatAreOffAreShownByWhatBecomesOfThem(t *testing.T) {
	m, _ := at(noon)
	nodes := []*corev1.Node{
		node("in", maintenance.PhaseCompleted, "True", &maintenance.NodeRecord{ID: "m"}),
		node("out", maintenance.PhaseNone, "", nil),
		node("next", maintenance.PhaseDraining, "True", &maintenance.NodeRecord{ID: "another"}),
		node("harvesters", maintenance.PhaseNone, "", nil),
	}
	nodes[3].Annotations[maintenance.AnnotationRequested] = "true"
	foreign := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "foreign", Annotations: map[string]string{maintenance.AnnotationMarker: "out"}}}
	foreignIn := foreign.DeepCopy()
	foreignIn.Name, foreignIn.Annotations[maintenance.AnnotationMarker] = "foreign-in", "in"
	broken := foreign.DeepCopy()
	broken.Name, broken.Annotations[maintenance.AnnotationVMRecord] = "broken", "{"
	cloned := foreign.DeepCopy()
	cloned.Name, cloned.Annotations[maintenance.AnnotationVMRecord] = "cloned", (&maintenance.VMRecord{ID: "m", VM: "its original", Node: "out"}).Encode()
	served := foreign.DeepCopy()
	served.Name, served.Annotations[maintenance.AnnotationMarker] = "served", "harvesters"
	vms := []*kubevirtv1.VirtualMachine{
		vm("waits", "in", as),
		vm("refused", "in", afterEnable),
		pinned(vm("pinned", "in", afterEnable)),
		running(vm("starts", "in", func(r *maintenance.VMRecord) { r.Starting = true })),
		running(vm("taken", "out", as)),
		vm("due", "out", as),
		vm("due-again", "next", as),
		vm("never", "out", func(r *maintenance.VMRecord) { r.Restart = maintenance.RestartNever }),
		vm("node-gone", "gone", as),
		vm("node-new", "out", func(r *maintenance.VMRecord) { r.NodeUID = "older" }),
		foreign, foreignIn, broken, cloned, served,
	}
	observe := func(vm *kubevirtv1.VirtualMachine) (*plan.Snapshot, *plan.StoppedVM, error) {
		record, err := maintenance.VMRecordOf(vm)
		if err != nil || record == nil {
			t.Errorf("VM %s is observed, with %v", vm.Name, err)
			return nil, nil, err
		}
		s := &plan.Snapshot{Name: record.Node, Nodes: nodes, Now: noon}
		for _, node := range nodes {
			if node.Name == record.Node {
				s.Node = node
			}
		}
		return s, &plan.StoppedVM{VM: vm, Record: record}, nil
	}
	m.Show(State{Words: maintenance.Takeover, VM: observe, Nodes: func() ([]*corev1.Node, error) { return nodes, nil }, VMs: func() ([]*kubevirtv1.VirtualMachine, error) { return vms, nil }})
	names := []string{"drydock_vm_start_due", "drydock_vms_stopped", "drydock_vm_marker_orphaned"}
	want(t, m, `
# HELP drydock_vm_marker_orphaned 1 for each VM whose marker names a node that is not in maintenance, without a record by which Drydock would start it.
# TYPE drydock_vm_marker_orphaned gauge
drydock_vm_marker_orphaned{name="broken",namespace="shop",node="out"} 1
drydock_vm_marker_orphaned{name="cloned",namespace="shop",node="out"} 1
drydock_vm_marker_orphaned{name="foreign",namespace="shop",node="out"} 1
# HELP drydock_vm_start_due 1 for each VM that Drydock stopped, that is due to be started and is not started yet.
# TYPE drydock_vm_start_due gauge
drydock_vm_start_due{name="due",namespace="shop"} 1
drydock_vm_start_due{name="due-again",namespace="shop"} 1
drydock_vm_start_due{name="refused",namespace="shop"} 1
drydock_vm_start_due{name="starts",namespace="shop"} 1
# HELP drydock_vms_stopped VMs that are off for the maintenance of a node, by when they are started again.
# TYPE drydock_vms_stopped gauge
drydock_vms_stopped{node="gone",restart="AfterDisable"} 1
drydock_vms_stopped{node="in",restart="AfterDisable"} 2
drydock_vms_stopped{node="in",restart="AfterEnable"} 2
drydock_vms_stopped{node="next",restart="AfterDisable"} 1
drydock_vms_stopped{node="out",restart="AfterDisable"} 3
drydock_vms_stopped{node="out",restart="Never"} 1
`, names...)
	vms = nil
	want(t, m, "", names...)
}

func TestCachesAndCertificatesAreAskedAtEveryScrape(t *testing.T) {
	m, _ := at(noon)
	synced, end := false, time.Time{}
	m.Cache("nodes", func() bool { return synced })
	m.Certificate("serving", func() time.Time { return end })
	names := []string{"drydock_cache_synced", "drydock_certificate_expiry_timestamp_seconds"}
	const cacheHelp = `
# HELP drydock_cache_synced 1 once the cache of a resource is filled.
# TYPE drydock_cache_synced gauge
drydock_cache_synced{resource="nodes"} `
	want(t, m, cacheHelp+"0\n", names...)
	synced, end = true, noon
	want(t, m, cacheHelp+`1
# HELP drydock_certificate_expiry_timestamp_seconds When a certificate ends, in seconds since 1970.
# TYPE drydock_certificate_expiry_timestamp_seconds gauge
drydock_certificate_expiry_timestamp_seconds{certificate="serving"} 1.8934992e+09
`, names...)
}
