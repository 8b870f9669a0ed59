package plan

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// What must end before a VM may be stopped is named, and waited for. Force is no reason
// to go around it.
func TestAStopWaitsForWhatIsInProgress(t *testing.T) {
	snapshot, restore := "snap-1", "restore-1"
	for name, test := range map[string]struct {
		change func(*Instance)
		names  string
	}{
		"nothing":    {change: func(*Instance) {}},
		"a snapshot": {change: func(i *Instance) { i.VM.Status.SnapshotInProgress = &snapshot }, names: "is waiting for snapshot snap-1 to end"},
		"a restore":  {change: func(i *Instance) { i.VM.Status.RestoreInProgress = &restore }, names: "is waiting for restore restore-1 to end"},
		"a request to start": {change: func(i *Instance) {
			i.VM.Status.StateChangeRequests = []kubevirtv1.VirtualMachineStateChangeRequest{{Action: kubevirtv1.StartRequest}}
		}, names: "is waiting for KubeVirt to serve a start or stop request"},
		"a volume migration": {change: func(i *Instance) {
			i.VMI.Status.Conditions = append(i.VMI.Status.Conditions, kubevirtv1.VirtualMachineInstanceCondition{Type: kubevirtv1.VirtualMachineInstanceVolumesChange, Status: corev1.ConditionTrue})
		}, names: "is waiting for a volume migration to end"},
		"a volume migration that has ended": {change: func(i *Instance) {
			i.VMI.Status.Conditions = append(i.VMI.Status.Conditions, kubevirtv1.VirtualMachineInstanceCondition{Type: kubevirtv1.VirtualMachineInstanceVolumesChange, Status: corev1.ConditionFalse})
		}},
		"a migration that only the VMI shows yet": {change: func(i *Instance) {
			i.VMI.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{MigrationUID: "m"}
		}, names: "is waiting for a migration to end"},
		"a migration that has ended, which the VMI does not show yet": {change: func(i *Instance) {
			i.VMI.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{MigrationUID: "m"}
			i.Migrations = []*kubevirtv1.VirtualMachineInstanceMigration{{ObjectMeta: metav1.ObjectMeta{UID: "m"}, Status: kubevirtv1.VirtualMachineInstanceMigrationStatus{Phase: kubevirtv1.MigrationFailed}}}
		}},
		"a migration that has ended": {change: func(i *Instance) {
			i.VMI.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{MigrationUID: "m", Completed: true}
		}},
	} {
		for _, forced := range []bool{false, true} {
			w := cluster(3, 1, false)
			w.addVM("a", "w1", "Shutdown", kubevirtv1.RunStrategyAlways)
			node := w.nodes["w1"]
			engage(node, maintenance.StatusRunning)
			node.Annotations[maintenance.AnnotationNodeRecord] = (&maintenance.NodeRecord{ID: "id", Cordoned: true, Forced: forced}).Encode()
			node.Spec.Unschedulable = true
			s := w.snapshot("w1")
			test.change(&s.Instances[0])
			p, err := Decide(s)
			if err != nil {
				t.Fatal(err)
			}
			stopped := slices.ContainsFunc(p.Actions, func(a Action) bool { _, ok := a.(Halt); return ok })
			if stopped != (test.names == "") || !strings.Contains(p.Face.Message, test.names) {
				t.Errorf("%s, forced %t: the VM is stopped: %t; it says %q", name, forced, stopped, p.Face.Message)
			}
		}
	}
}
