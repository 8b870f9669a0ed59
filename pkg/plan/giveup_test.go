package plan

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// showing makes a node of a snapshot show a phase.
func showing(node *corev1.Node, phase maintenance.Phase, message string) {
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
		Type: maintenance.ConditionType, Status: corev1.ConditionTrue, Reason: string(phase), Message: message,
	})
}

// An Event is never put right: that nothing is left must not be told of a node whose pods
// nobody has listed. What is asked for ends at once all the same.
func TestADrainIsGivenUpOnceItsPodsAreKnown(t *testing.T) {
	uncordoned := func(s *Snapshot) { s.Node.Spec.Unschedulable = false }
	late := func(s *Snapshot) { s.Now = s.Now.Add(time.Hour) }
	for name, test := range map[string]struct {
		before maintenance.HaltCause // it was given up already, by another manager
		change func(*Snapshot)
		want   string
		told   int
	}{
		"its limit has passed":                                  {change: late, want: "timed out after 1h0m0s; ", told: 1},
		"somebody uncordoned":                                   {change: uncordoned, want: "uncordoned by somebody else; ", told: 1},
		"its limit had passed before":                           {before: maintenance.HaltDrainLimit, change: late, want: "timed out after 1h0m0s; "},
		"somebody had uncordoned it before":                     {before: maintenance.HaltUncordoned, change: uncordoned, want: "uncordoned by somebody else; "},
		"somebody had uncordoned it, and has cordoned it since": {before: maintenance.HaltUncordoned, change: func(*Snapshot) {}, want: "uncordoned by somebody else; "},
	} {
		t.Run(name, func(t *testing.T) {
			_, s := underRecord(maintenance.NodeRecord{Halted: test.before})
			s.Config.DrainTimeout = time.Hour
			showing(s.Node, maintenance.PhaseDraining, "1 of 1 VMs left")
			test.change(s)
			s.PodsKnown = false
			p, err := Decide(s)
			if err != nil {
				t.Fatal(err)
			}
			if p.Face != nil || len(p.Events) > 0 || len(p.Actions) > 0 || !p.WatchPods {
				t.Errorf("before its pods are known it shows %+v, tells %v, does %v; they are being listed: %t", p.Face, p.Events, p.Actions, p.WatchPods)
			}
			s.PodsKnown, s.Pods = true, []Pod{{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", DeletionTimestamp: &metav1.Time{Time: s.Now}}}}}
			if p, err = Decide(s); err != nil {
				t.Fatal(err)
			}
			if p.Face.Phase != maintenance.PhaseError || !strings.HasPrefix(p.Face.Message, test.want+"1 of 1 VMs left: 1 waiting (ns/a); 1 pod left, ns/web is terminating; ") {
				t.Errorf("it shows %s: %q", p.Face.Phase, p.Face.Message)
			}
			if len(p.Actions) > 0 || len(p.Events) != test.told {
				t.Errorf("it does %v and tells %v, want %d events", p.Actions, p.Events, test.told)
			}
			for _, e := range p.Events {
				if e.Reason != EventError || !e.Warning || e.Message != p.Face.Message {
					t.Errorf("it tells %+v", e)
				}
			}
		})
	}
}

// Why a drain was given up, and what to do about it, is worth more than what a manager that
// has just started waits for.
func TestADrainThatWasGivenUpKeepsItsMessageWhileASystemIsPending(t *testing.T) {
	for halted, want := range map[maintenance.HaltCause]string{
		"":                         "waiting until Longhorn's volumes are known",
		maintenance.HaltDrainLimit: "why and what next",
		maintenance.HaltUncordoned: "why and what next",
	} {
		w, s := underRecord(maintenance.NodeRecord{Halted: halted})
		s.Pending = "Longhorn's volumes are"
		showing(s.Node, maintenance.PhaseError, "why and what next")
		p, err := Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		if p.Face != nil {
			w.show(s.Node, p.Face)
		}
		if got := maintenance.Condition(s.Node).Message; got != want || len(p.Actions) > 0 || len(p.Events) > 0 {
			t.Errorf("halted %q: it shows %q, want %q; it does %v and tells %v", halted, got, want, p.Actions, p.Events)
		}
	}
}

// The pods that nobody has listed may be all that is left.
func TestADrainGoesOnOnlyOnceItsPodsAreKnown(t *testing.T) {
	for phase, next := range map[maintenance.Phase]maintenance.Phase{
		maintenance.PhaseDraining:   maintenance.PhaseEvacuating,
		maintenance.PhaseEvacuating: maintenance.PhaseCompleted,
	} {
		for _, known := range []bool{false, true} {
			w := cluster(3, 1, false)
			showing(draining(w), phase, "no VM and no pod is left")
			s := w.snapshot("w1")
			s.PodsKnown = known
			p, err := Decide(s)
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]maintenance.Phase{false: phase, true: next}[known]; p.Face.Phase != want || (len(p.Events) > 0) != known {
				t.Errorf("its pods are known: %t; from %s it goes to %s and tells %v, want %s", known, phase, p.Face.Phase, p.Events, want)
			}
			if listing := p.Face.Message == "listing the node's pods"; listing == known || (!known && !p.WatchPods) {
				t.Errorf("its pods are known: %t; %s it says %q; they are being listed: %t", known, phase, p.Face.Message, p.WatchPods)
			}
		}
	}
}

// Whose cordon stands when the node is left: Drydock's own goes, everybody else's stays.
func TestACordonOfAnotherHandStaysOnLeaving(t *testing.T) {
	const left = "the node has left maintenance"
	for name, test := range map[string]struct {
		record    maintenance.NodeRecord
		cordoned  bool
		uncordons int
		want      string
	}{
		"Drydock's own": {cordoned: true, uncordons: 1, want: left},
		"Drydock's own, of a drain that took too long":         {record: maintenance.NodeRecord{Halted: maintenance.HaltDrainLimit}, cordoned: true, uncordons: 1, want: left},
		"it was there before":                                  {record: maintenance.NodeRecord{CordonedBefore: true}, cordoned: true, want: left + "; it stays cordoned, as it was before"},
		"somebody uncordoned":                                  {record: maintenance.NodeRecord{Halted: maintenance.HaltUncordoned}, want: left},
		"somebody uncordoned and cordoned again":               {record: maintenance.NodeRecord{Halted: maintenance.HaltUncordoned}, cordoned: true, want: left + "; it stays cordoned, as somebody else has cordoned it since"},
		"it was there before, and somebody did both meanwhile": {record: maintenance.NodeRecord{CordonedBefore: true, Halted: maintenance.HaltUncordoned}, cordoned: true, want: left + "; it stays cordoned, as somebody else has cordoned it since"},
	} {
		t.Run(name, func(t *testing.T) {
			_, s := underRecord(test.record)
			delete(s.Node.Annotations, maintenance.AnnotationStatus)
			s.Node.Spec.Unschedulable = test.cordoned
			p, err := Decide(s)
			if err != nil {
				t.Fatal(err)
			}
			if act[Uncordon](p) != test.uncordons || p.Face == nil || p.Face.Record != nil {
				t.Errorf("it does %v and shows %+v, want %d uncordons", p.Actions, p.Face, test.uncordons)
			}
			if len(p.Events) != 1 || p.Events[0].Message != test.want {
				t.Errorf("it tells %v, want %q", p.Events, test.want)
			}
		})
	}
}
