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

func TestACordonIsRefusedOnTheLastNodeAlone(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(w *world)
		refused bool
	}{
		"others remain":                    {},
		"the last one":                     {change: func(w *world) { w.nodes["w2"].Spec.Unschedulable = true }, refused: true},
		"the other one is in maintenance":  {change: func(w *world) { engage(w.nodes["w2"], "completed") }, refused: true},
		"the last one is down itself":      {change: func(w *world) { unready(w.nodes["w1"]); unready(w.nodes["w2"]) }},
		"it is in maintenance and by then": {change: func(w *world) { engage(w.nodes["w1"], "running"); unready(w.nodes["w2"]) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(0, 2, false)
			if c.change != nil {
				c.change(w)
			}
			findings, err := CheckCordon(w.snapshot("w1"))
			if err != nil {
				t.Fatal(err)
			}
			if got := Refusal(findings); (got != "") != c.refused || (c.refused && !strings.Contains(got, "no other node would remain")) {
				t.Errorf("the refusal is %q, want one: %t", got, c.refused)
			}
		})
	}
}

func TestARequestIsCheckedAgainstTheNodesAlone(t *testing.T) {
	w := cluster(3, 0, false)
	w.addVM("pinned", "cp1", "Migrate", "Always").Spec.Template.Spec.NodeSelector = map[string]string{"only": "here"}
	if findings, err := CheckMembers(w.snapshot("cp1")); err != nil || Refusal(findings) != "" {
		t.Errorf("with all members there: %v, %v", findings, err)
	}
	engage(w.nodes["cp2"], "running")
	findings, err := CheckMembers(w.snapshot("cp1"))
	if err != nil || !strings.Contains(Refusal(findings), "quorum") {
		t.Errorf("with a member out: %v, %v", findings, err)
	}
	whole, _, err := Check(w.snapshot("cp1"), true)
	if err != nil || !strings.Contains(Refusal(whole), Refusal(findings)) {
		t.Errorf("the pre-check says %q, the webhook %q: %v", Refusal(whole), Refusal(findings), err)
	}
}

func TestARefusalIsDismissed(t *testing.T) {
	w := cluster(2, 0, false)
	node := w.nodes["cp1"]
	node.Annotations[maintenance.AnnotationRequested] = "true"
	w.pass("cp1")
	w.pass("cp1")
	if c := maintenance.Condition(node); c == nil || c.Status != corev1.ConditionFalse {
		t.Fatalf("the request is not refused: %+v", c)
	}
	node.Annotations[maintenance.AnnotationClear] = "true"
	w.pass("cp1")
	if c := maintenance.Condition(node); c != nil || len(node.Annotations) > 0 {
		t.Errorf("the node keeps %+v and %v", c, node.Annotations)
	}
}

// Beside Harvester's own controllers the renamed request alone counts, the status word
// is not theirs, and what they serve counts as out of maintenance.
func TestBesideHarvester(t *testing.T) {
	w := cluster(3, 1, false)
	w.words = maintenance.Takeover
	node := w.nodes["w1"]
	node.Annotations[maintenance.AnnotationRequested] = "true"
	for range 3 {
		w.pass("w1")
	}
	if c := maintenance.Condition(node); c != nil || node.Spec.Unschedulable {
		t.Errorf("a request that Harvester serves was taken: %+v", c)
	}
	delete(node.Annotations, maintenance.AnnotationRequested)
	node.Annotations[maintenance.AnnotationRenamedRequested], node.Annotations[maintenance.AnnotationRequestedBy] = "true", "alice"
	for range 3 {
		w.pass("w1")
	}
	if got := node.Annotations[maintenance.AnnotationStatus]; got != maintenance.StatusDraining || !node.Spec.Unschedulable {
		t.Errorf("the node shows %q while it drains", got)
	}
	if got := recordOf(t, node).RequestedBy; got != "alice" {
		t.Errorf("the record names %q as who asked", got)
	}
	if _, left := node.Annotations[maintenance.AnnotationRenamedRequested]; left {
		t.Error("the request is not consumed")
	}
	w.nodes["cp2"].Annotations[maintenance.AnnotationRequested] = "false"
	snapshot := w.snapshot("cp1")
	if findings, _, err := Check(snapshot, false); err != nil || !strings.Contains(Refusal(findings), "quorum") {
		t.Errorf("what Harvester serves does not count: %v, %v", findings, err)
	}
}

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
func TestARequestThatIsServedByHarvesterIsTold(t *testing.T) {
	w := cluster(3, 1, false)
	w.words = maintenance.Takeover
	w.nodes["w1"].Annotations[maintenance.AnnotationRequested] = "true"
	p, err := Decide(w.snapshot("w1"))
	if err != nil || len(p.Events) != 1 || p.Events[0].Reason != EventForeign || len(p.Actions) > 0 || p.Face != nil {
		t.Errorf("the plan is %+v, %v", p, err)
	}
}

func TestARequestWhileLeavingIsDroppedAloud(t *testing.T) {
	w := cluster(3, 1, false)
	node := ask(w)
	delete(node.Annotations, maintenance.AnnotationStatus)
	node.Annotations[maintenance.AnnotationRequested] = "true"
	p, err := Decide(w.snapshot("w1"))
	if err != nil || !p.Face.Consume || p.Face.Phase != maintenance.PhaseNone {
		t.Fatalf("the node does not leave: %+v, %v", p, err)
	}
	if last := p.Events[len(p.Events)-1]; last.Reason != EventDropped || !last.Warning {
		t.Errorf("the last event is %+v", last)
	}
}

// The drain limit is a drain's: a VM that arrives a day after is given its time.
func TestAVMThatArrivesLaterIsNotTooLate(t *testing.T) {
	w := cluster(3, 1, false)
	node := ask(w)
	for range 4 {
		w.pass("w1")
	}
	if phase := maintenance.PhaseOf(node); phase != maintenance.PhaseCompleted {
		t.Fatalf("the empty node is %s", phase)
	}
	w.now = w.now.Add(24 * time.Hour)
	w.addVM("late", "w1", "Migrate", kubevirtv1.RunStrategyAlways)
	for range 2 {
		snapshot := w.snapshot("w1")
		snapshot.Config.DrainTimeout = time.Hour
		p, err := Decide(snapshot)
		if err != nil || p.Face == nil || p.Face.Phase == maintenance.PhaseCompleted || p.Face.Phase == maintenance.PhaseError {
			t.Fatalf("the plan is %+v, %v", p, err)
		}
		w.show(node, p.Face)
	}
}
