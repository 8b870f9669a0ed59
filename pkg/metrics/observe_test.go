package metrics

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// counts compares all series of a counter, by their labels' values in order.
func counts(t *testing.T, vector prometheus.Collector, want map[string]float64) {
	t.Helper()
	got := map[string]float64{}
	for labels, metric := range series(t, vector) {
		got[labels] = metric.GetCounter().GetValue()
	}
	compare(t, got, want)
}

// sums compares the sums of all series of a histogram.
func sums(t *testing.T, vector prometheus.Collector, want map[string]float64) {
	t.Helper()
	got := map[string]float64{}
	for labels, metric := range series(t, vector) {
		got[labels] = metric.GetHistogram().GetSampleSum()
	}
	compare(t, got, want)
}

func compare(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for labels := range got {
		// Those that nothing was added to are there from the beginning.
		if _, ok := want[labels]; !ok && got[labels] != 0 {
			t.Errorf("there is a series %s with %v", labels, got[labels])
		}
	}
	for labels, value := range want {
		if got[labels] != value {
			t.Errorf("%s is %v, want %v", labels, got[labels], value)
		}
	}
}

func series(t *testing.T, vector prometheus.Collector) map[string]*dto.Metric {
	t.Helper()
	found := map[string]*dto.Metric{}
	ch := make(chan prometheus.Metric, 100)
	vector.Collect(ch)
	close(ch)
	for metric := range ch {
		written := &dto.Metric{}
		if err := metric.Write(written); err != nil {
			t.Fatal(err)
		}
		labels := ""
		for _, pair := range written.Label {
			labels += "/" + pair.GetValue()
		}
		found[labels] = written
	}
	return found
}

func TestARequestCountsOnceAndEachCheckThatRefusedItOnce(t *testing.T) {
	m, _ := at(noon)
	m.Decided(&plan.Plan{})
	m.Decided(&plan.Plan{Face: &plan.Face{Phase: maintenance.PhaseValidating}})
	m.Decided(&plan.Plan{Face: &plan.Face{Phase: maintenance.PhaseDraining}, Findings: []plan.Finding{{Check: plan.CheckCapacity, Warning: true}}})
	m.Decided(&plan.Plan{Face: &plan.Face{Phase: maintenance.PhaseError}, Findings: []plan.Finding{
		{Check: plan.CheckVMs}, {Check: plan.CheckVMs}, {Check: plan.CheckQuorum}, {Check: plan.CheckCapacity, Warning: true},
	}})
	counts(t, m.requests, map[string]float64{"/admitted": 1, "/refused": 1})
	counts(t, m.refused, map[string]float64{"/VirtualMachines": 1, "/Quorum": 1})
	nothingNew(t, m)
}

func TestEvictionsAreCountedByAnswer(t *testing.T) {
	m, _ := at(noon)
	m.Evicted(true, 429)
	m.Evicted(false, 201)
	m.Evicted(false, 0)
	m.Evicted(false, 777) // no status that exists, and so no series of its own
	counts(t, m.evictions, map[string]float64{"/429/launcher": 1, "/201/other": 1, "/none/other": 2})
}

func TestAVMIsCountedWhenItsMaintenanceIsOver(t *testing.T) {
	m, _ := at(noon)
	never := func(r *maintenance.VMRecord) { r.Restart = maintenance.RestartNever }
	starting := func(r *maintenance.VMRecord) { r.Starting = true }
	m.Acted(plan.Forget{VM: vm("a", "w1", starting), Told: &plan.Event{Reason: plan.EventVMStarted}}, nil)
	m.Acted(plan.Forget{VM: vm("b", "w1", as), Told: &plan.Event{Reason: plan.EventVMStarted}}, nil)
	m.Acted(plan.Forget{VM: vm("c", "w1", never)}, nil)
	m.Acted(plan.Forget{VM: vm("d", "w1", as), Told: &plan.Event{Reason: plan.EventVMStaysOff}}, nil)
	m.Acted(plan.Forget{VM: vm("e", "w1", as), Told: &plan.Event{Reason: plan.EventVMStarted}}, errors.New("conflict"))
	m.Acted(plan.Forget{VM: &kubevirtv1.VirtualMachine{}}, nil)
	m.Acted(plan.DeleteVMI{}, nil)
	m.Acted(plan.Uncordon{}, nil)
	counts(t, m.handled, map[string]float64{
		"/started/StopRestartAfterDisable": 1, "/started_by_others/StopRestartAfterDisable": 1, "/stays_off/StopRestartAfterDisable": 1,
		"/stays_off/StopStayOff": 1, "/deleted/Delete": 1,
	})
	nothingNew(t, m)
}

func TestADrainIsMeasuredFromItsStartToItsEnd(t *testing.T) {
	m, clock := at(noon)
	record := &maintenance.NodeRecord{ID: "m", Started: metav1.NewTime(noon)}
	turn := func(from, to maintenance.Phase, after time.Duration, halted maintenance.HaltCause) {
		clock.SetTime(clock.Now().Add(after))
		before := node("w1", from, "True", record)
		if c := maintenance.Condition(before); c != nil {
			c.LastTransitionTime = metav1.NewTime(clock.Now().Add(-after))
		}
		m.Turned(before, &plan.Face{Phase: to, Record: &maintenance.NodeRecord{Halted: halted}})
	}
	none, draining, evacuating, completed, failed := maintenance.PhaseNone, maintenance.PhaseDraining, maintenance.PhaseEvacuating, maintenance.PhaseCompleted, maintenance.PhaseError
	turn(none, maintenance.PhaseValidating, 0, "")
	turn(maintenance.PhaseValidating, draining, time.Second, "")
	record.Started = metav1.NewTime(clock.Now())
	turn(draining, evacuating, 10*time.Second, "")
	turn(evacuating, completed, 20*time.Second, "")
	// A VM arrives two days later: that is a drain of its own, not one of two days.
	turn(completed, draining, 48*time.Hour, "")
	turn(draining, evacuating, 4*time.Second, "")
	turn(evacuating, completed, 3*time.Second, "")
	sums(t, m.drains, map[string]float64{"/completed": 37})
	turn(completed, none, time.Hour, "")
	record.Started = metav1.NewTime(clock.Now())
	turn(draining, failed, time.Minute, maintenance.HaltUncordoned)
	turn(failed, none, time.Minute, "")
	record.Started = metav1.NewTime(clock.Now())
	turn(draining, failed, 2*time.Minute, maintenance.HaltDrainLimit)
	record.Started = metav1.NewTime(clock.Now())
	turn(evacuating, none, 5*time.Second, "")
	sums(t, m.drains, map[string]float64{"/completed": 37, "/uncordoned": 60, "/timed_out": 120, "/left": 5})
	sums(t, m.phases, map[string]float64{"/Validating": 1, "/Draining": 194, "/Evacuating": 28, "/Completed": 176400, "/Error": 60})
	if len(m.again) > 0 {
		t.Errorf("a drain that is over is remembered: %v", m.again)
	}
	// A phase of somebody else's makes no series.
	before := node("w2", "SomebodyElse", "True", nil)
	m.Turned(before, &plan.Face{Phase: maintenance.PhaseValidating})
	nothingNew(t, m)
}

func TestMigrationsAndStopsAreMeasuredByTheLeader(t *testing.T) {
	m, clock := at(noon)
	lookup := Lookup{
		VM: func(_, name string) *kubevirtv1.VirtualMachine {
			if name == "a" {
				return vm("a", "w1", as)
			}
			return nil
		},
		Recorded: func(node string) bool { return node == "w1" },
	}
	migration := func(phase kubevirtv1.VirtualMachineInstanceMigrationPhase, node string, labels map[string]string) *kubevirtv1.VirtualMachineInstanceMigration {
		return &kubevirtv1.VirtualMachineInstanceMigration{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon), Labels: labels, Annotations: map[string]string{kubevirtv1.EvacuationMigrationAnnotation: node}},
			Status: kubevirtv1.VirtualMachineInstanceMigrationStatus{Phase: phase, PhaseTransitionTimestamps: []kubevirtv1.VirtualMachineInstanceMigrationPhaseTransitionTimestamp{
				{Phase: kubevirtv1.MigrationPending, PhaseTransitionTimestamp: metav1.NewTime(noon)},
				{Phase: kubevirtv1.MigrationSucceeded, PhaseTransitionTimestamp: metav1.NewTime(noon.Add(7 * time.Second))},
			}},
		}
	}
	clock.SetTime(noon.Add(time.Minute))
	m.migrated(migration(kubevirtv1.MigrationSucceeded, "w1", nil), lookup)
	m.migrated(migration(kubevirtv1.MigrationSucceeded, "elsewhere", nil), lookup)
	m.migrated(migration(kubevirtv1.MigrationSucceeded, "", nil), lookup)
	own := migration(kubevirtv1.MigrationFailed, "", map[string]string{maintenance.LabelOwnMigration: "m"})
	m.migrated(own, lookup)
	own.DeletionTimestamp = &own.CreationTimestamp
	m.migrated(own, lookup)
	sums(t, m.migrations, map[string]float64{"/Eviction/succeeded": 7, "/Migration/failed": 60, "/Migration/withdrawn": 60})
	counts(t, m.handled, map[string]float64{"/moved/Move": 1})

	deleted := metav1.NewTime(noon.Add(50 * time.Second))
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "old", DeletionTimestamp: &deleted}}
	m.stopped(vmi, lookup)
	for _, other := range []metav1.ObjectMeta{{Name: "a", UID: "newer", DeletionTimestamp: &deleted}, {Name: "b", UID: "old", DeletionTimestamp: &deleted}, {Name: "a", UID: "old"}} {
		m.stopped(&kubevirtv1.VirtualMachineInstance{ObjectMeta: other}, lookup)
	}
	sums(t, m.stops, map[string]float64{"/AfterDisable": 10})
	nothingNew(t, m)
}

func TestWritesOfLabelsAreCountedByOutcome(t *testing.T) {
	m, _ := at(noon)
	resource := schema.GroupResource{Resource: "pods"}
	for _, err := range []error{nil, apierrors.NewConflict(resource, "p", nil), apierrors.NewNotFound(resource, "p"), errors.New("no answer")} {
		m.LabelWritten("Pod", err)
	}
	counts(t, m.sync, map[string]float64{"/Pod/written": 1, "/Pod/conflict": 1, "/Pod/gone": 1, "/Pod/failed": 1})
	nothingNew(t, m)
}

func TestLeadingAndIdleAreGauges(t *testing.T) {
	m, _ := at(noon)
	m.Leading(true)
	m.Idle(true)
	m.PassedBy(true)
	if testutil.ToFloat64(m.leader) != 1 || testutil.ToFloat64(m.idle) != 1 || testutil.ToFloat64(m.passedBy) != 1 {
		t.Error("does not lead, is not idle, or is not passed by")
	}
	m.Leading(false)
	m.Idle(false)
	m.PassedBy(false)
	if testutil.ToFloat64(m.leader) != 0 || testutil.ToFloat64(m.idle) != 0 || testutil.ToFloat64(m.passedBy) != 0 {
		t.Error("still leads, is idle, or is passed by")
	}
}
