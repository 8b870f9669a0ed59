package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// ask requests maintenance of w1 and makes the passes up to the cordon.
func ask(w *world) *corev1.Node {
	node := w.nodes["w1"]
	node.Annotations[maintenance.AnnotationRequested] = "true"
	for range 3 {
		w.pass("w1")
	}
	return node
}

func recordOf(t *testing.T, node *corev1.Node) *maintenance.NodeRecord {
	t.Helper()
	record, err := maintenance.NodeRecordOf(node)
	if err != nil || record == nil {
		t.Fatalf("no record: %v", err)
	}
	return record
}

func act[A Action](p *Plan) int {
	var count int
	for _, action := range p.Actions {
		if _, ok := action.(A); ok {
			count++
		}
	}
	return count
}

// Left behind, force would force the next request.
func TestForceGoesWithTheRequestThatIsTakenBack(t *testing.T) {
	w := cluster(3, 1, false)
	node := w.nodes["w1"]
	node.Annotations[maintenance.AnnotationRequested], node.Annotations[maintenance.AnnotationForced] = "true", "true"
	w.pass("w1")
	delete(node.Annotations, maintenance.AnnotationRequested)
	w.pass("w1")
	if len(node.Annotations) > 0 || maintenance.Condition(node) != nil {
		t.Errorf("the node keeps %v, %v", node.Annotations, maintenance.Condition(node))
	}
}

// The id of a maintenance is its request's: never an earlier one's.
func TestEachRequestHasAnIDOfItsOwn(t *testing.T) {
	w := cluster(3, 1, false)
	node := ask(w)
	first := recordOf(t, node).ID
	delete(node.Annotations, maintenance.AnnotationStatus)
	w.pass("w1")
	if second := recordOf(t, ask(w)).ID; second == first || first == "" {
		t.Errorf("the ids are %q and %q", first, second)
	}
}

// What is not known yet must not pass for what is not there.
func TestNothingIsConcludedWhileASystemIsPending(t *testing.T) {
	w := cluster(3, 1, false)
	node := w.nodes["w1"]
	node.Annotations[maintenance.AnnotationRequested] = "true"
	w.pass("w1")
	snapshot := w.snapshot("w1")
	snapshot.Pending = "Longhorn's volumes are"
	p, err := Admit(snapshot)
	if err != nil || p.Face == nil || p.Face.Phase != maintenance.PhaseValidating || p.Wake != 0 {
		t.Errorf("a request is answered by %+v, %v", p.Face, err)
	}
	w.pass("w1")
	w.pass("w1")
	snapshot = w.snapshot("w1")
	snapshot.Pending = "Longhorn's volumes are"
	if p, err = Decide(snapshot); err != nil || len(p.Actions) > 0 || p.Face.Phase != maintenance.PhaseDraining || p.Wake != 0 {
		t.Errorf("a drain goes on with %v to %+v, %v", p.Actions, p.Face, err)
	}
}

// KubeVirt has marked the VM, and the watch does not show it yet.
func TestLeavingWaitsForAMarkThatDoesNotShowYet(t *testing.T) {
	w := cluster(3, 1, false)
	w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
	node := ask(w)
	w.pass("w1")
	delete(node.Annotations, maintenance.AnnotationStatus)
	snapshot := w.snapshot("w1")
	snapshot.Instances[0].VMI.Status.EvacuationNodeName = ""
	p, err := Decide(snapshot)
	if err != nil || p.Face == nil || p.Face.Record == nil || p.Wake == 0 {
		t.Errorf("leaving goes on to %+v, %v, before the mark can be seen", p.Face, err)
	}
	snapshot.Now = snapshot.Now.Add(time.Minute)
	if p, err = Decide(snapshot); err != nil || p.Face == nil || p.Face.Record != nil {
		t.Errorf("a minute later leaving goes on to %+v, %v", p.Face, err)
	}
}

// An eviction under LiveMigrateIfPossible would shut such a VM down.
func TestAVMThatKubeVirtDoesNotCallMigratableIsNotEvicted(t *testing.T) {
	w := cluster(3, 1, false)
	w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
	ask(w)
	for _, conditions := range [][]kubevirtv1.VirtualMachineInstanceCondition{
		nil, {{Type: kubevirtv1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionUnknown}},
	} {
		snapshot := w.snapshot("w1")
		snapshot.Instances[0].VMI.Status.Conditions = conditions
		if p, err := Decide(snapshot); err != nil || act[Evict](p) > 0 {
			t.Errorf("with %v it is evicted (%v)", conditions, err)
		}
	}
	if p, err := Decide(w.snapshot("w1")); err != nil || act[Evict](p) != 1 {
		t.Errorf("a migratable VM is not evicted: %v", err)
	}
}

// Of a VMI and its migration, which change together, the migration is seen first.
func TestAVMThatHasMovedIsLeftAloneBeforeItShows(t *testing.T) {
	w := cluster(3, 1, false)
	w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
	ask(w)
	snapshot := w.snapshot("w1")
	i := &snapshot.Instances[0]
	i.VMI.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{MigrationUID: "m", SourceNode: "w1"}
	i.Migrations = []*kubevirtv1.VirtualMachineInstanceMigration{{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID("m")}, Status: kubevirtv1.VirtualMachineInstanceMigrationStatus{Phase: kubevirtv1.MigrationSucceeded},
	}}
	p, err := Decide(snapshot)
	if err != nil || len(p.Actions) > 0 || p.VMs[0].Reason != ReasonDeparted {
		t.Errorf("%v is done for a VM that is %s, %v", p.Actions, p.VMs[0].Reason, err)
	}
}

// Whoever asks again after a drain limit gets a drain, also when somebody uncordoned.
func TestAskingAgainAfterALimitAndAnUncordonCordonsAgain(t *testing.T) {
	w := cluster(3, 1, false)
	w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
	node := ask(w)
	record := recordOf(t, node)
	record.Halted = maintenance.HaltDrainLimit
	node.Annotations[maintenance.AnnotationNodeRecord] = record.Encode()
	node.Spec.Unschedulable = false
	node.Annotations[maintenance.AnnotationRequested] = "true"
	for range 3 {
		w.pass("w1")
	}
	if !node.Spec.Unschedulable || maintenance.PhaseOf(node) == maintenance.PhaseError {
		t.Errorf("the node is %s, cordoned %t", maintenance.PhaseOf(node), node.Spec.Unschedulable)
	}
}

// A VM whose owner cannot be found may ask for anything: it is never deleted.
func TestAVMIWhoseOwnerIsUnknownIsNotDeletedByForce(t *testing.T) {
	w := cluster(3, 1, false)
	w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
	snapshot := w.snapshot("w1")
	i := &snapshot.Instances[0]
	i.VM, i.OwnerUnknown = nil, true
	notMigratable(i)
	if _, fates, err := Check(snapshot, true); err != nil || fates[0].Verdict != Block {
		t.Errorf("the verdict is %s, %v", fates[0].Verdict, err)
	}
}

// Force that is asked for again, alone, is answered: left there, nobody would know whether
// it was heard.
func TestForceThatIsThereAlreadyIsConsumedAndAnswered(t *testing.T) {
	for _, halted := range []maintenance.HaltCause{"", maintenance.HaltDrainLimit} {
		w := cluster(3, 1, false)
		w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
		w.nodes["w1"].Annotations[maintenance.AnnotationForced] = "true"
		node := ask(w)
		record := recordOf(t, node)
		record.Halted = halted
		node.Annotations[maintenance.AnnotationNodeRecord] = record.Encode()
		node.Annotations[maintenance.AnnotationForced] = "true"
		p, err := Decide(w.snapshot("w1"))
		if err != nil || p.Face == nil || !p.Face.Consume || p.Face.Record.Halted != halted || !p.Face.Record.Forced || len(p.Actions) > 0 {
			t.Fatalf("halted %q: it leads to %+v, %v", halted, p.Face, err)
		}
		if len(p.Events) != 1 || p.Events[0].Reason != EventAgain || p.Events[0].Message != "force was asked for again; the node is Draining with force already" {
			t.Errorf("halted %q: it is answered by %v", halted, p.Events)
		}
		w.pass("w1")
		if _, there := node.Annotations[maintenance.AnnotationForced]; there {
			t.Errorf("halted %q: the annotation stays", halted)
		}
	}
}

// Somebody has cleaned up annotations, of which one is what the admission knows a request
// by.
func TestARequestThatLostItsIDGetsAnother(t *testing.T) {
	w := cluster(3, 1, false)
	node := w.nodes["w1"]
	node.Annotations[maintenance.AnnotationRequested] = "true"
	w.pass("w1")
	delete(node.Annotations, maintenance.AnnotationRequestID)
	if p, err := Decide(w.snapshot("w1")); err != nil || p.Admit || p.Face == nil || p.Face.RequestID == "" || p.Face.Phase != maintenance.PhaseValidating {
		t.Errorf("%+v, %v", p, err)
	}
}
