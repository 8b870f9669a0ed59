package plan

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// A migration that was deleted before it ran is there until its hosts have let go of it,
// which the one that does not answer never does.
func TestLeavingWaitsForADeletedMigrationWhileItsNodeAnswers(t *testing.T) {
	for status, waits := range map[corev1.ConditionStatus]bool{corev1.ConditionTrue: true, corev1.ConditionFalse: true, corev1.ConditionUnknown: false} {
		t.Run(string(status), func(t *testing.T) {
			w := cluster(3, 2, false)
			w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
			node, now := w.nodes["w1"], metav1.NewTime(w.now)
			node.Annotations[maintenance.AnnotationNodeRecord] = (&maintenance.NodeRecord{ID: "id", Cordoned: true}).Encode()
			node.Spec.Unschedulable, node.Status.Conditions[0].Status = true, status
			w.migrations["m"] = &kubevirtv1.VirtualMachineInstanceMigration{
				ObjectMeta: metav1.ObjectMeta{Name: "m", DeletionTimestamp: &now, Annotations: map[string]string{kubevirtv1.EvacuationMigrationAnnotation: "w1"}},
				Spec:       kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: "a"},
				Status:     kubevirtv1.VirtualMachineInstanceMigrationStatus{Phase: kubevirtv1.MigrationTargetReady},
			}
			p, err := Decide(w.snapshot("w1"))
			if err != nil {
				t.Fatal(err)
			}
			if waited := p.Face.Record != nil; waited != waits {
				t.Errorf("leaving waits: %t, want %t", waited, waits)
			}
		})
	}
}

// Force deletes a VMI without a VM only when no migration of it is unfinished.
func TestForceDeletesNothingDuringAMigration(t *testing.T) {
	w := cluster(3, 1, false)
	w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
	w.nodes["w1"].Annotations[maintenance.AnnotationNodeRecord] = (&maintenance.NodeRecord{ID: "id", Cordoned: true, Forced: true}).Encode()
	engage(w.nodes["w1"], maintenance.StatusRunning)
	w.nodes["w1"].Spec.Unschedulable = true
	m := &kubevirtv1.VirtualMachineInstanceMigration{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: "a"}}
	w.migrations["m"] = m
	for phase, deletes := range map[kubevirtv1.VirtualMachineInstanceMigrationPhase]bool{kubevirtv1.MigrationPending: false, kubevirtv1.MigrationRunning: false, kubevirtv1.MigrationFailed: true} {
		m.Status.Phase = phase
		s := w.snapshot("w1")
		bare(&s.Instances[0])
		notMigratable(&s.Instances[0])
		p, err := Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		deleted := slices.ContainsFunc(p.Actions, func(a Action) bool { _, ok := a.(DeleteVMI); return ok })
		if deleted != deletes {
			t.Errorf("migration %s: the VMI is deleted: %t, want %t", phase, deleted, deletes)
		}
	}
}

// A VM that KubeVirt does not start is told to its owner, but not at once.
func TestAVMThatKubeVirtDoesNotStartIsTold(t *testing.T) {
	for _, strategy := range []kubevirtv1.VirtualMachineRunStrategy{kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce} {
		w := cluster(3, 1, false)
		v := &StoppedVM{VM: w.addVM("a", "w1", "", strategy), Record: &maintenance.VMRecord{ID: "id", Node: "w1", Starting: true}, LastTry: w.now}
		for after, stuck := range map[time.Duration]bool{0: false, startPatience / 2: false, startPatience: true} {
			s := w.snapshot("w1")
			s.Now = w.now.Add(after)
			p, err := DecideVM(s, v)
			if err != nil {
				t.Fatal(err)
			}
			if p.Stuck != stuck || (!stuck && p.Wake <= 0) {
				t.Errorf("%s, after %s: told: %t, want %t; looked at again after %s", strategy, after, p.Stuck, stuck, p.Wake)
			}
		}
	}
}
