package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Slots of the cluster go to the nodes with most VMs first.
func TestSlotsGoToTheNodeWithMostVMs(t *testing.T) {
	for name, test := range map[string]struct {
		slots         Slots
		sent, waiting int
	}{
		"nobody else waits, its own slots are the limit": {Slots{Cluster: 3}, 2, 0},
		"another waits with fewer":                       {Slots{Cluster: 4, Waiting: []int{2}}, 1, 2},
		"another waits with as many":                     {Slots{Cluster: 4, Waiting: []int{3}}, 1, 2},
		"another waits with more":                        {Slots{Cluster: 4, Waiting: []int{4}}, 0, 3},
		"there is a slot for another and for this node":  {Slots{Cluster: 3, Waiting: []int{4}}, 1, 2},
		"its own slots are taken":                        {Slots{Cluster: 2, Node: 2}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(3, 2, false)
			for n := range 3 {
				w.addVM(fmt.Sprintf("vm-%d", n), "w1", "", kubevirtv1.RunStrategyAlways)
			}
			s := w.snapshot("w1")
			s.Migrations = test.slots
			s.Node.Spec.Unschedulable = true
			s.Node.Annotations[maintenance.AnnotationStatus] = maintenance.StatusRunning
			record := &maintenance.NodeRecord{ID: "m", Started: metav1.NewTime(s.Now), Cordoned: true}
			s.Node.Annotations[maintenance.AnnotationNodeRecord] = record.Encode()
			p, err := Decide(s)
			if err != nil {
				t.Fatal(err)
			}
			sent := 0
			for _, action := range p.Actions {
				if _, ok := action.(Evict); ok {
					sent++
				}
			}
			if sent != test.sent || p.Waiting != test.waiting {
				t.Errorf("%d are sent and %d wait, want %d and %d", sent, p.Waiting, test.sent, test.waiting)
			}
			if yields := slices.Contains(test.slots.Waiting, 4); yields != (p.Wake == yieldAgain) {
				t.Errorf("it looks again after %s", p.Wake)
			}
		})
	}
}

// A VM that gave its slot to others because no node takes it is named with the reason,
// although nothing shows it any more.
func TestAVMThatSteppedBackIsNamedWithItsReason(t *testing.T) {
	w := cluster(3, 1, false)
	w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
	ask(w)
	w.pass("w1")
	s := w.snapshot("w1")
	s.Attempts = map[types.UID]Attempt{w.vmis["a"].UID: {Count: 1, Last: s.Now, Node: "w1", Withdrawn: "had no target: Insufficient memory"}}
	s.Instances[0].VMI.Status.EvacuationNodeName = ""
	for _, free := range []bool{true, false} {
		if !free {
			s.Migrations.Node, s.Now = 2, s.Now.Add(time.Hour)
		}
		p, err := Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p.Face.Message, "ns/a had no target: Insufficient memory") {
			t.Errorf("slots free %t: the message is %q", free, p.Face.Message)
		}
	}
}
