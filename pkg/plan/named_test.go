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

// off is a VM that this maintenance of w1 has stopped.
func off(w *world, name, strategy string, record maintenance.VMRecord) *kubevirtv1.VirtualMachine {
	vm := w.addVM(name, "w1", strategy, kubevirtv1.RunStrategyHalted)
	delete(w.vmis, name)
	record.ID, record.VM, record.Node, record.NodeUID, record.RunStrategy = "id", vm.UID, "w1", w.nodes["w1"].UID, "Always"
	vm.Annotations[maintenance.AnnotationMarker], vm.Annotations[maintenance.AnnotationVMRecord] = "w1", record.Encode()
	return vm
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
		showing(draining(w), maintenance.PhaseEvacuating, "")
		vm := off(w, "a", "ShutdownAndRestartAfterEnable", maintenance.VMRecord{Restart: maintenance.RestartAfterEnable, Source: maintenance.SourceLabel})
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

// A paused guest is moved as it is. That it is paused is said wherever it stands: its owner
// may have forgotten.
func TestAPausedVMIsNamedAsPaused(t *testing.T) {
	for name, test := range map[string]struct {
		slots Slots
		want  string
	}{
		"on its way":         {want: "1 of 1 VMs left: 1 migrating; ns/a is paused"},
		"waiting for a slot": {slots: Slots{Node: 2}, want: "1 of 1 VMs left: 1 waiting; ns/a (paused) is waiting for a migration slot"},
	} {
		t.Run(name, func(t *testing.T) {
			_, s := underRecord(maintenance.NodeRecord{})
			i := &s.Instances[0]
			i.VMI.Status.Conditions = append(i.VMI.Status.Conditions, kubevirtv1.VirtualMachineInstanceCondition{Type: kubevirtv1.VirtualMachineInstancePaused, Status: corev1.ConditionTrue})
			s.Migrations = test.slots
			p, err := Decide(s)
			if err != nil {
				t.Fatal(err)
			}
			if p.Face.Message != test.want || !p.Face.Progress.VMs[0].Paused {
				t.Errorf("it says %q, want %q; the report has %+v", p.Face.Message, test.want, p.Face.Progress.VMs)
			}
		})
	}
}

// An owner who chose another end for a VM must see that force took it: in what the node
// says, in its report, and in the VM's own event.
func TestAVMThatForceStoppedIsToldApart(t *testing.T) {
	const never = maintenance.RestartNever
	w := cluster(3, 1, false)
	showing(draining(w), maintenance.PhaseEvacuating, "")
	off(w, "a", "Migrate", maintenance.VMRecord{Restart: never, Source: maintenance.SourceForce})
	off(w, "b", "Shutdown", maintenance.VMRecord{Restart: never, Source: maintenance.SourceLabel})
	off(w, "c", "ShutdownAndRestartAfterEnable", maintenance.VMRecord{Restart: never, Source: maintenance.SourceForce})
	off(w, "d", "ShutdownAndRestartAfterDisable", maintenance.VMRecord{Restart: maintenance.RestartAfterDisable, Source: maintenance.SourceLabel})
	p, err := Decide(w.snapshot("w1"))
	if err != nil {
		t.Fatal(err)
	}
	want := "the node is empty and may be rebooted; started on leaving: ns/d; off until somebody starts them: ns/b; stopped by force, off until somebody starts them: ns/a, ns/c"
	if p.Face.Message != want {
		t.Errorf("it says\n%s\nwant\n%s", p.Face.Message, want)
	}
	for _, vm := range p.Face.Progress.Off {
		forced := vm.Name == "a" || vm.Name == "c"
		if (vm.Source == maintenance.SourceForce) != forced {
			t.Errorf("the report has %+v", vm)
		}
		told := Stopping(Halt{VM: w.vms[vm.Name], Record: &maintenance.VMRecord{Node: "w1", Restart: vm.Restart, Source: vm.Source}}).Message
		if strings.HasPrefix(told, "stopped by force for maintenance of node w1; it stays off") != forced || strings.HasPrefix(told, "stopped for maintenance of node w1; ") == forced {
			t.Errorf("the owner of ns/%s hears %q", vm.Name, told)
		}
	}
	if got := len(p.Face.Progress.Off); got != 4 {
		t.Errorf("the report has %d VMs that are off, want 4", got)
	}
}
