package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// VMs that were tried in vain come last: first, they would take the same slots again while
// the others wait behind them.
func TestVMsThatWereTriedInVainComeLast(t *testing.T) {
	evicted := func(w *world, s *Snapshot, name string) {
		s.Attempts["pod-"+w.vmis[name].UID] = Attempt{Count: 1, Last: w.now.Add(-time.Hour), Code: 429}
	}
	failed := func(_ *world, s *Snapshot, name string) {
		for n := range s.Instances {
			if i := &s.Instances[n]; i.VMI.Name == name {
				i.Migrations = []*kubevirtv1.VirtualMachineInstanceMigration{{
					ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(s.Now.Add(-time.Hour)), Annotations: map[string]string{kubevirtv1.EvacuationMigrationAnnotation: "w1"}},
					Status:     kubevirtv1.VirtualMachineInstanceMigrationStatus{Phase: kubevirtv1.MigrationFailed},
				}}
			}
		}
	}
	for name, test := range map[string]struct {
		change func(*world, *Snapshot, string)
		of     []string
		want   string
	}{
		"none was tried":               {want: "4 of 4 VMs left: 2 migrating (ns/a, ns/b), 2 waiting (ns/c, ns/d)"},
		"two did not leave":            {change: evicted, of: []string{"a", "b"}, want: "4 of 4 VMs left: 2 migrating (ns/c, ns/d), 2 waiting (ns/a, ns/b)"},
		"the migrations of two failed": {change: failed, of: []string{"a", "b"}, want: "2 migrating (ns/c, ns/d)"},
		"that of the second failed":    {change: failed, of: []string{"b"}, want: "2 migrating (ns/a, ns/c), 2 waiting (ns/d); ns/b migration failed 1 time: no reason given; it is waiting for a migration slot"},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(3, 1, false)
			node := draining(w)
			node.Annotations[maintenance.AnnotationNodeRecord] = (&maintenance.NodeRecord{ID: "id", Cordoned: true, Started: metav1.NewTime(w.now.Add(-2 * time.Hour))}).Encode()
			for _, vm := range []string{"a", "b", "c", "d"} {
				w.addVM(vm, "w1", "", kubevirtv1.RunStrategyAlways)
			}
			s := w.snapshot("w1")
			for _, vm := range test.of {
				test.change(w, s, vm)
			}
			p, err := Decide(s)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(p.Face.Message, test.want) {
				t.Errorf("it says %q, want %q", p.Face.Message, test.want)
			}
		})
	}
}

// A move that gets nowhere gives its slot to those that wait for one, unless somebody else
// has asked for it before the drain: that is not Drydock's to take back.
func TestAMoveThatGetsNowhereStepsBackUnlessItIsAnothers(t *testing.T) {
	begun := metav1.NewTime(newWorld().now)
	migration := func(i *Instance, phase kubevirtv1.VirtualMachineInstanceMigrationPhase) {
		i.Migrations = []*kubevirtv1.VirtualMachineInstanceMigration{{
			ObjectMeta: metav1.ObjectMeta{Name: "m", CreationTimestamp: begun, Annotations: map[string]string{kubevirtv1.EvacuationMigrationAnnotation: "w1"}},
			Status:     kubevirtv1.VirtualMachineInstanceMigrationStatus{Phase: phase},
		}}
	}
	failed := func(i *Instance) { migration(i, kubevirtv1.MigrationFailed) }
	stuck := func(i *Instance) {
		migration(i, kubevirtv1.MigrationScheduling)
		i.Targets = []*corev1.Pod{{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}}}
	}
	for name, test := range map[string]struct {
		change             func(*Instance)
		before, alone      bool // the mark is older than the drain, no other VM waits
		withdrawn, deleted int
	}{
		"its migration failed":                            {change: failed, withdrawn: 1},
		"its target finds no node":                        {change: stuck, withdrawn: 1, deleted: 1},
		"its migration failed, and nobody waits":          {change: failed, alone: true},
		"its target finds no node, and nobody waits":      {change: stuck, alone: true},
		"its migration failed, which another asked for":   {change: failed, before: true},
		"its target finds no node, and another asked it":  {change: stuck, before: true},
		"it is on its way, and there is nothing wrong":    {change: func(i *Instance) { migration(i, kubevirtv1.MigrationRunning) }},
		"it is marked, and its migration is yet to begin": {change: func(*Instance) {}},
	} {
		t.Run(name, func(t *testing.T) {
			record := maintenance.NodeRecord{}
			if test.before {
				record.MarkedBefore = []types.UID{"uid-of-a"}
			}
			w, _ := underRecord(record)
			w.vmis["a"].UID, w.vmis["a"].Status.EvacuationNodeName = "uid-of-a", "w1"
			if !test.alone {
				w.addVM("b", "w1", "", kubevirtv1.RunStrategyAlways)
			}
			s := w.snapshot("w1")
			s.Migrations = Slots{Node: 2, Cluster: 2}
			test.change(&s.Instances[0])
			p, err := Decide(s)
			if err != nil {
				t.Fatal(err)
			}
			if act[Withdraw](p) != test.withdrawn || act[DeleteMigration](p) != test.deleted || act[Evict](p) > 0 {
				t.Errorf("it does %v, want %d marks and %d migrations taken back", p.Actions, test.withdrawn, test.deleted)
			}
		})
	}
}
