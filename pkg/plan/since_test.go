package plan

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// underRecord is a world with the VM a on the node w1, which is drained.
func underRecord(record maintenance.NodeRecord) (*world, *Snapshot) {
	w := cluster(3, 2, false)
	w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
	node := w.nodes["w1"]
	engage(node, maintenance.StatusRunning)
	record.ID, record.Cordoned, record.Started = "id", true, metav1.NewTime(w.now)
	node.Annotations[maintenance.AnnotationNodeRecord] = record.Encode()
	node.Spec.Unschedulable = true
	return w, w.snapshot("w1")
}

// A VM that stops being movable after the admission is waited for, whatever it would have
// consented to before, and under force where what it lacks may come back.
func TestAVMThatCannotMoveSinceTheAdmissionIsWaitedFor(t *testing.T) {
	possible := template(kubevirtv1.EvictionStrategyLiveMigrateIfPossible)
	underWay := func(i *Instance) {
		i.Migrations = []*kubevirtv1.VirtualMachineInstanceMigration{{Status: kubevirtv1.VirtualMachineInstanceMigrationStatus{Phase: kubevirtv1.MigrationRunning}}}
	}
	for name, test := range map[string]struct {
		change   []func(*Instance)
		admitted bool // it could not move then either
		waited   time.Duration
		unforced Verdict
		forced   Verdict
	}{
		"its targets are gone":                             {change: []func(*Instance){pinned}, unforced: Block, forced: Block},
		"its targets are gone for a while":                 {change: []func(*Instance){pinned}, waited: targetPatience, unforced: Block, forced: StopStayOff},
		"it never had a target":                            {change: []func(*Instance){pinned}, admitted: true, unforced: Block, forced: StopStayOff},
		"its targets are gone, it would consent":           {change: []func(*Instance){possible, pinned}, waited: targetPatience, unforced: Block, forced: StopStayOff},
		"it never had a target, it consents":               {change: []func(*Instance){possible, pinned}, admitted: true, unforced: StopRestartAfterEnable, forced: StopStayOff},
		"it is not live-migratable any more":               {change: []func(*Instance){possible, notMigratable}, unforced: Block, forced: StopStayOff},
		"its targets are gone while its memory is moved":   {change: []func(*Instance){possible, pinned, underWay}, admitted: true, waited: targetPatience, unforced: Move, forced: Move},
		"it belongs to no VM, and its targets are gone":    {change: []func(*Instance){cpuModel, bare}, unforced: Block, forced: Block},
		"it belongs to no VM, they are gone for a while":   {change: []func(*Instance){cpuModel, bare}, waited: targetPatience, unforced: Block, forced: Delete},
		"it allows every interruption, its targets remain": {change: []func(*Instance){template(kubevirtv1.EvictionStrategyNone)}, unforced: StopRestartAfterEnable, forced: Move},
	} {
		t.Run(name, func(t *testing.T) {
			for _, force := range []bool{false, true} {
				record := maintenance.NodeRecord{Forced: force}
				w, s := underRecord(record)
				i := &s.Instances[0]
				for _, change := range test.change {
					change(i)
				}
				if test.admitted {
					record.Unmovable = []types.UID{i.VMI.UID}
					record.ID, record.Cordoned = "id", true
					s.Node.Annotations[maintenance.AnnotationNodeRecord] = record.Encode()
				}
				s.NoTarget = map[types.UID]time.Time{i.VMI.UID: w.now.Add(-test.waited)}
				s.Config.PossibleIsConsent = true
				p, err := Decide(s)
				if err != nil {
					t.Fatal(err)
				}
				want := test.unforced
				if force {
					want = test.forced
				}
				if got := p.VMs[0]; got.Verdict != want {
					t.Errorf("force %t: the verdict is %s (%s), want %s", force, got.Verdict, got.Message, want)
				}
				if force && want == Block && (p.Wake == 0 || p.Wake > targetPatience) {
					t.Errorf("it is looked at again after %s, want %s at most", p.Wake, targetPatience)
				}
			}
		})
	}
}

// The admission records who could not move then.
func TestTheAdmissionRecordsWhoCannotMove(t *testing.T) {
	w := cluster(3, 2, false)
	w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
	w.addVM("b", "w1", "", kubevirtv1.RunStrategyAlways)
	w.nodes["w1"].Annotations[maintenance.AnnotationRequested] = "true"
	w.nodes["w1"].Annotations[maintenance.AnnotationForced] = "true"
	s := w.snapshot("w1")
	notMigratable(&s.Instances[1])
	p, err := Admit(s)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Face.Record.Unmovable, []types.UID{s.Instances[1].VMI.UID}; !slices.Equal(got, want) {
		t.Errorf("recorded are %v, want %v", got, want)
	}
}

// A mark from before the drain is somebody else's as long as it stands. When it was seen
// to go, the next one is the drain's own.
func TestAMarkFromBeforeTheDrainIsForgottenWithIt(t *testing.T) {
	record := maintenance.NodeRecord{MarkedBefore: []types.UID{"uid-of-a"}}
	_, s := underRecord(record)
	i := &s.Instances[0]
	i.VMI.UID = "uid-of-a"
	for _, marked := range []bool{true, false} {
		i.VMI.Status.EvacuationNodeName = map[bool]string{true: "w1"}[marked]
		p, err := Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(p.Face.Record.MarkedBefore) == 1; got != marked {
			t.Errorf("marked %t: the record has %v", marked, p.Face.Record.MarkedBefore)
		}
	}
}

// KubeVirt applies an instancetype's node selector to the VMI alone. It is the owner's all
// the same; a host name is what an earlier move has left there.
func TestAnInstancetypesNodeSelectorCounts(t *testing.T) {
	for name, test := range map[string]struct {
		instancetype bool
		selector     map[string]string
		want         Verdict
	}{
		"of an instancetype":               {instancetype: true, selector: map[string]string{"gpu": "rare"}, want: Block},
		"left over":                        {selector: map[string]string{"gpu": "rare"}, want: Move},
		"a host name with an instancetype": {instancetype: true, selector: map[string]string{corev1.LabelHostname: "w1"}, want: Move},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(3, 2, false)
			w.nodes["w1"].Labels["gpu"] = "rare"
			w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
			s := w.snapshot("w1")
			i := &s.Instances[0]
			if test.instancetype {
				i.VM.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Name: "large"}
			}
			i.VMI.Spec.NodeSelector, i.Launchers[0].Spec.NodeSelector = test.selector, maps.Clone(test.selector)
			_, fates, err := Check(s, false)
			if err != nil {
				t.Fatal(err)
			}
			if fates[0].Verdict != test.want {
				t.Errorf("the verdict is %s (%s), want %s", fates[0].Verdict, fates[0].Message, test.want)
			}
			// Stopped, it asks the same of a node.
			v := &StoppedVM{VM: i.VM, Record: &maintenance.VMRecord{NodeSelector: i.instancetypeSelector()}}
			situation, err := observe(s)
			if err != nil {
				t.Fatal(err)
			}
			if got := situation.cannotStartElsewhere(v) == ""; got != (test.want == Move) {
				t.Errorf("stopped, it can start elsewhere: %t", got)
			}
		})
	}
}

// An empty strategy means Migrate like any unknown one, and is told.
func TestAnEmptyStrategyIsTold(t *testing.T) {
	w := cluster(3, 2, false)
	vm := w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
	vm.Labels[maintenance.LabelStrategy] = ""
	w.nodes["w1"].Annotations[maintenance.AnnotationRequested] = "true"
	p, err := Admit(w.snapshot("w1"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(p.Events, func(e Event) bool { return e.Reason == EventVMUnknown && e.Once != "" }) {
		t.Errorf("nothing is told: %v", p.Events)
	}
}

// Somebody has removed all annotations of a maintenance, which a condition outlives: it is
// over then, the node as it is.
func TestAMaintenanceWithoutARecordEnds(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world, *corev1.Node)
		want   bool
	}{
		"nothing is left but the condition": {change: func(*world, *corev1.Node) {}, want: true},
		"it is refused":                     {change: func(_ *world, node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionFalse }},
		"the status stays, as Harvester's own": {change: func(_ *world, node *corev1.Node) {
			node.Annotations[maintenance.AnnotationStatus] = maintenance.StatusRunning
		}},
		"Harvester is asked": {change: func(w *world, node *corev1.Node) {
			w.words, node.Annotations[maintenance.AnnotationRequested] = maintenance.Takeover, "true"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(3, 2, false)
			w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
			w.vmis["a"].Status.EvacuationNodeName = "w1"
			w.migrations["own"] = &kubevirtv1.VirtualMachineInstanceMigration{
				ObjectMeta: metav1.ObjectMeta{Name: "own", Labels: map[string]string{maintenance.LabelOwnMigration: "the lost id"}},
				Spec:       kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: "a"},
			}
			node := w.nodes["w1"]
			node.Spec.Unschedulable = true
			node.Status.Conditions = []corev1.NodeCondition{{Type: maintenance.ConditionType, Status: corev1.ConditionTrue, Reason: string(maintenance.PhaseDraining)}}
			test.change(w, node)
			p, err := Decide(w.snapshot("w1"))
			if err != nil {
				t.Fatal(err)
			}
			if withdrawn := act[Withdraw](p) == 1 && act[DeleteMigration](p) == 1; withdrawn != test.want {
				t.Errorf("the evacuation and Drydock's own migration are withdrawn: %t", withdrawn)
			}
			clear(w.migrations)
			w.vmis["a"].Status.EvacuationNodeName = ""
			if p, err = Decide(w.snapshot("w1")); err != nil {
				t.Fatal(err)
			}
			if ended := p.Face != nil && p.Face.Phase == maintenance.PhaseNone; ended != test.want || act[Uncordon](p) > 0 {
				t.Errorf("it ends: %t, actions %v", ended, p.Actions)
			}
		})
	}
}
