package plan

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// draining is a node in the middle of its drain.
func draining(w *world) *corev1.Node {
	node := w.nodes["w1"]
	engage(node, maintenance.StatusRunning)
	node.Annotations[maintenance.AnnotationNodeRecord] = (&maintenance.NodeRecord{ID: "id", Cordoned: true, Started: metav1.NewTime(w.now)}).Encode()
	node.Spec.Unschedulable = true
	return node
}

// Whatever a drain waits for is named: each VM once, and each pod.
func TestWhatIsLeftIsNamed(t *testing.T) {
	w := cluster(3, 1, false)
	draining(w)
	grace := int64(600)
	for n := range 9 {
		w.addVM(fmt.Sprintf("m%d", n), "w1", "", kubevirtv1.RunStrategyAlways)
	}
	w.vmis["m0"].Status.EvacuationNodeName = "w1"
	w.vmis["m1"].Status.EvacuationNodeName = "w1"
	w.addVM("off", "w1", "Shutdown", kubevirtv1.RunStrategyHalted)
	w.vmis["off"].DeletionTimestamp, w.vmis["off"].Spec.TerminationGracePeriodSeconds = &metav1.Time{Time: w.now}, &grace
	s := w.snapshot("w1")
	s.Pods = []Pod{{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "slow", DeletionTimestamp: &metav1.Time{Time: w.now}}}}}
	p, err := Decide(s)
	if err != nil {
		t.Fatal(err)
	}
	want := "10 of 10 VMs left: 2 migrating (ns/m0, ns/m1), 1 shutting down, up to 600 s (ns/off), 7 waiting (ns/m2, ns/m3, ns/m4, ns/m5, ns/m6 and 2 more); 1 pod left, ns/slow is terminating"
	if p.Face.Message != want {
		t.Errorf("it says\n%s\nwant\n%s", p.Face.Message, want)
	}
}

// A launcher that an earlier migration has left behind keeps KubeVirt from beginning
// another: the VM is not marked, where it would hold a slot, and the pod is named. One
// that is marked already is named as well.
func TestWhatAnEarlierMigrationLeftBehindIsNamed(t *testing.T) {
	for _, marked := range []bool{false, true} {
		w := cluster(3, 1, false)
		draining(w)
		w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
		if marked {
			w.vmis["a"].Status.EvacuationNodeName = "w1"
		}
		s := w.snapshot("w1")
		s.Instances[0].Targets = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "virt-launcher-a-old"}}}
		p, err := Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p.Face.Message, "ns/a is waiting for pod ns/virt-launcher-a-old of an earlier migration to end") || act[Evict](p) > 0 {
			t.Errorf("marked: %t; %d evictions; it says %q", marked, act[Evict](p), p.Face.Message)
		}
		s.Instances[0].Targets = nil
		p, err = Decide(s)
		if sent := act[Evict](p) == 1; err != nil || sent == marked {
			t.Errorf("marked: %t; without the pod %d evictions, %v", marked, act[Evict](p), err)
		}
	}
}

// Leaving names the VMs whose evacuations it withdraws.
func TestLeavingNamesWhatItWithdraws(t *testing.T) {
	w := cluster(3, 1, false)
	node := draining(w)
	w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
	w.addVM("b", "w1", "", kubevirtv1.RunStrategyAlways)
	w.vmis["b"].Status.EvacuationNodeName = "w1"
	delete(node.Annotations, maintenance.AnnotationStatus)
	p, err := Decide(w.snapshot("w1"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "leaving maintenance: evacuations are being withdrawn: ns/b"; p.Face.Message != want {
		t.Errorf("it says %q, want %q", p.Face.Message, want)
	}
}

// A VM that was cloned or restored while another was stopped has that one's annotations.
// Nothing is halted or started because of them, and its marker is reported as anybody's.
func TestTheRecordOfAnotherVMIsNoRecord(t *testing.T) {
	w := cluster(3, 1, false)
	node := draining(w)
	vm := w.addVM("copy", "w1", "ShutdownAndRestartAfterDisable", kubevirtv1.RunStrategyHalted)
	delete(w.vmis, "copy")
	record := &maintenance.VMRecord{ID: "id", VM: vm.UID, Node: "w1", NodeUID: node.UID, Restart: maintenance.RestartAfterDisable, Source: maintenance.SourceLabel}
	vm.Annotations[maintenance.AnnotationMarker], vm.Annotations[maintenance.AnnotationVMRecord] = "w1", record.Encode()
	if got := w.stoppedVM("copy"); got == nil {
		t.Error("its own record is not seen")
	}
	record.VM = "the VM that it was copied from"
	vm.Annotations[maintenance.AnnotationVMRecord] = record.Encode()
	if got := w.stoppedVM("copy"); got != nil {
		t.Errorf("another's record is taken for its own: %+v", got.Record)
	}
	if e := ForeignMarker(maintenance.Plain, vm, nil); e == nil {
		t.Error("the marker that nobody serves is not reported")
	}
}

// A start that KubeVirt would refuse is waited for by name, and one that is refused all
// the same stays in the report.
func TestAVMWhoseStartIsHeldIsInTheReport(t *testing.T) {
	snapshot, restore := "nightly", "yesterday"
	for want, change := range map[string]func(*kubevirtv1.VirtualMachine){
		"not started yet: ns/a (snapshot nightly is in progress)":  func(vm *kubevirtv1.VirtualMachine) { vm.Status.SnapshotInProgress = &snapshot },
		"not started yet: ns/a (restore yesterday is in progress)": func(vm *kubevirtv1.VirtualMachine) { vm.Status.RestoreInProgress = &restore },
		"not started yet: ns/a (its start is asked for)":           func(*kubevirtv1.VirtualMachine) {},
	} {
		w := cluster(3, 1, false)
		node := draining(w)
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: maintenance.ConditionType, Status: corev1.ConditionTrue, Reason: string(maintenance.PhaseEvacuating)})
		vm := w.addVM("a", "w1", "ShutdownAndRestartAfterEnable", kubevirtv1.RunStrategyHalted)
		delete(w.vmis, "a")
		record := &maintenance.VMRecord{ID: "id", VM: vm.UID, Node: "w1", NodeUID: node.UID, Restart: maintenance.RestartAfterEnable, Source: maintenance.SourceLabel, RunStrategy: "Always"}
		vm.Annotations[maintenance.AnnotationMarker], vm.Annotations[maintenance.AnnotationVMRecord] = "w1", record.Encode()
		change(vm)
		p, err := Decide(w.snapshot("w1"))
		if err != nil {
			t.Fatal(err)
		}
		if p.Face.Phase != maintenance.PhaseCompleted || !strings.Contains(p.Face.Message, want) {
			t.Errorf("it says %s: %q, want %q", p.Face.Phase, p.Face.Message, want)
		}
	}
}
