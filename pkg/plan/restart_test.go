package plan

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Somebody who takes a VM out of Halted starts it only once a new VMI is there. KubeVirt
// lets RerunOnFailure be when it is written while the old guest shuts down, and Manual at
// any time.
func TestAVMThatIsTakenOutOfHaltedIsFollowedUntilItRuns(t *testing.T) {
	old := func(uid types.UID, leaving bool) func(*StoppedVM) {
		return func(v *StoppedVM) {
			v.VMI = &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{UID: uid}}
			if leaving {
				v.VMI.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
		}
	}
	off := func(v *StoppedVM) { v.Record.Restart = maintenance.RestartNever }
	unseen := func(v *StoppedVM) { v.VM.Status.RunStrategy = kubevirtv1.RunStrategyHalted }
	for name, test := range map[string]struct {
		run           kubevirtv1.VirtualMachineRunStrategy
		change        []func(*StoppedVM)
		left          bool
		starts, stays bool // else it is forgotten
	}{
		"it runs anew":                                 {run: "RerunOnFailure", change: []func(*StoppedVM){old("new", false)}},
		"it was never shut down":                       {run: "RerunOnFailure", change: []func(*StoppedVM){old("old", false)}},
		"KubeVirt has yet to see it":                   {run: "RerunOnFailure", change: []func(*StoppedVM){old("old", false), unseen}, stays: true},
		"its old guest shuts down":                     {run: "RerunOnFailure", change: []func(*StoppedVM){old("old", true)}, stays: true},
		"its old guest is gone":                        {run: "RerunOnFailure", starts: true},
		"KubeVirt starts it by itself":                 {run: "Always", stays: true},
		"that starts no Manual VM":                     {run: "Manual", stays: true},
		"that starts no Manual VM that is to stay off": {run: "Manual", change: []func(*StoppedVM){off}, stays: true},
		"left, a Manual VM is to run again":            {run: "Manual", left: true, starts: true},
		"left, a Manual VM stays off that was to":      {run: "Manual", change: []func(*StoppedVM){off}, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(3, 1, false)
			node := ask(w)
			vm := w.addVM("a", "w1", "ShutdownAndRestartAfterDisable", test.run)
			vm.Status.RunStrategy = test.run
			v := &StoppedVM{VM: vm, Record: &maintenance.VMRecord{ID: recordOf(t, node).ID, Node: "w1", NodeUID: node.UID, Restart: maintenance.RestartAfterDisable, Source: maintenance.SourceLabel, Stopped: "old"}}
			for _, change := range test.change {
				change(v)
			}
			if test.left {
				v.Record.ID = "an earlier one"
			}
			p, err := DecideVM(w.snapshot("w1"), v)
			plan := &Plan{Actions: p.Actions}
			if err != nil || (act[CallStart](plan) == 1) != test.starts || (act[Forget](plan) == 0) != (test.starts || test.stays) {
				t.Errorf("want it started: %t, kept: %t; the plan is %+v, %v", test.starts, test.stays, p, err)
			}
		})
	}
}

// Beside a marker alone nothing is started: who takes it away wants the VM to stay off.
func TestAHaltedVMWithoutItsMarkerStaysOff(t *testing.T) {
	w := cluster(3, 1, false)
	vm := w.addVM("a", "w1", "ShutdownAndRestartAfterDisable", kubevirtv1.RunStrategyAlways)
	ask(w)
	w.pass("w1")
	delete(vm.Annotations, maintenance.AnnotationMarker)
	record, err := maintenance.VMRecordOf(vm)
	if err != nil || record == nil {
		t.Fatalf("the VM was not stopped: %v", err)
	}
	p, err := DecideVM(w.snapshot("w1"), &StoppedVM{VM: vm, Record: record})
	if err != nil || act[Forget](&Plan{Actions: p.Actions}) != 1 || act[Start](&Plan{Actions: p.Actions}) != 0 {
		t.Errorf("want it forgotten and not started: %+v, %v", p, err)
	}
}

// KubeVirt serves what is left of a start request on a VM that Drydock has halted: that is
// nobody's wish, and the VM is halted again. A person's paused start comes the same way, and
// shows in the request and, once that is served, in the new VMI.
func TestWhoStartedAVMThroughARequestIsToldApart(t *testing.T) {
	paused := kubevirtv1.StartStrategyPaused
	request := func(data map[string]string) func(*StoppedVM) {
		return func(v *StoppedVM) {
			v.VM.Status.StateChangeRequests = []kubevirtv1.VirtualMachineStateChangeRequest{{Action: kubevirtv1.StartRequest, Data: data}}
		}
	}
	vmi := func(uid types.UID, start *kubevirtv1.StartStrategy) func(*StoppedVM) {
		return func(v *StoppedVM) {
			v.VMI = &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: kubevirtv1.VirtualMachineInstanceSpec{StartStrategy: start}}
		}
	}
	template := func(v *StoppedVM) { v.VM.Spec.Template.Spec.StartStrategy = &paused }
	for name, test := range map[string]struct {
		change        []func(*StoppedVM)
		halts, forgot bool
	}{
		"a request":                                 {change: []func(*StoppedVM){request(nil)}},
		"a request and the VMI that it made":        {change: []func(*StoppedVM){request(nil), vmi("new", nil)}},
		"served, and the VMI does not show yet":     {},
		"served, and the old VMI still shows":       {change: []func(*StoppedVM){vmi("old", nil)}},
		"served":                                    {change: []func(*StoppedVM){vmi("new", nil)}, halts: true},
		"served, of a VM that always starts paused": {change: []func(*StoppedVM){template, vmi("new", &paused)}, halts: true},
		"paused":             {change: []func(*StoppedVM){request(map[string]string{kubevirtv1.StartRequestDataPausedKey: kubevirtv1.StartRequestDataPausedTrue})}},
		"paused, and served": {change: []func(*StoppedVM){vmi("new", &paused)}, forgot: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(3, 1, false)
			node := ask(w)
			vm := w.addVM("a", "w1", "ShutdownAndRestartAfterDisable", kubevirtv1.RunStrategyAlways)
			vm.Annotations[maintenance.AnnotationMarker] = "w1"
			vm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "virt-controller", Time: &metav1.Time{Time: w.now}, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:runStrategy":{}}}`)}}
			v := &StoppedVM{VM: vm, Record: &maintenance.VMRecord{ID: recordOf(t, node).ID, Node: "w1", NodeUID: node.UID, Restart: maintenance.RestartAfterDisable, Source: maintenance.SourceLabel, Stopped: "old"}}
			for _, change := range test.change {
				change(v)
			}
			p, err := DecideVM(w.snapshot("w1"), v)
			plan := &Plan{Actions: p.Actions}
			if err != nil || (act[Halt](plan) == 1) != test.halts || (act[Forget](plan) == 1) != test.forgot {
				t.Errorf("want it halted again: %t, forgotten: %t; the plan is %+v, %v", test.halts, test.forgot, p, err)
			}
			if len(p.Actions) == 0 && p.Wake == 0 && p.Waiting == "" {
				t.Error("nothing is done, and it is not looked at again")
			}
		})
	}
}

// A request that Harvester serves because the webhook was not there is no secret.
// The drain limit is a drain's: a VM that arrives a day after is given its time.
// A launcher whose VMI somebody has removed may still run its guest: it is not started
// beside it, and its node is not empty.
func TestALauncherThatOutlivesItsVMIIsWaitedFor(t *testing.T) {
	for _, here := range []bool{true, false} {
		w := cluster(3, 2, false)
		node := draining(w)
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: maintenance.ConditionType, Status: corev1.ConditionTrue, Reason: string(maintenance.PhaseEvacuating)})
		vm := off(w, "a", "ShutdownAndRestartAfterEnable", maintenance.VMRecord{ID: "id", Node: "w1", NodeUID: node.UID, Restart: maintenance.RestartAfterEnable, Source: maintenance.SourceLabel, Stopped: "old"})
		vm.Status.RunStrategy = kubevirtv1.RunStrategyHalted
		launcher := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "virt-launcher-a"}}
		if here {
			launcher.Spec.NodeName = "w1"
		}
		s := w.snapshot("w1")
		s.Stopped[0].Launchers = []*corev1.Pod{launcher}
		p, err := Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		if act[Start](p) > 0 || (p.Face.Phase == maintenance.PhaseCompleted) == here || !strings.Contains(p.Face.Message, "virt-launcher-a") {
			t.Errorf("the launcher is here: %t, and the plan is %+v with the face %+v", here, p.Actions, p.Face)
		}
		s.Stopped[0].Launchers = nil
		if p, err = Decide(s); err != nil || act[Start](p) != 1 || p.Face.Phase != maintenance.PhaseCompleted {
			t.Errorf("ended, the plan is %+v with the face %+v, %v", p.Actions, p.Face, err)
		}
	}
}
