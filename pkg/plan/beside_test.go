package plan

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
