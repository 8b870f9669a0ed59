package webhook

import (
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// machineMutator completes VirtualMachines.
type machineMutator struct {
	virtController func(username string) bool
}

func (m machineMutator) review(request *admissionv1.AdmissionRequest) (verdict, error) {
	old, now, err := machines(request)
	if err != nil || now == nil {
		return verdict{}, err
	}
	return verdict{patch: m.complete(old, now, m.virtController(request.UserInfo.Username))}, nil
}

// complete is the patch that a VirtualMachine is stored with; old is nil for one
// that is created.
func (m machineMutator) complete(old, now *machine, byVirtController bool) []operation {
	if now.DeletionTimestamp != nil {
		return nil
	}
	operations := completeStrategy(now)
	if old != nil && startedByHand(old, now, byVirtController) {
		operations = append(operations, removeKeys(now.Annotations, []string{"metadata", "annotations"}, maintenance.AnnotationMarker)...)
	}
	return operations
}

// completeStrategy writes the default where there is no strategy, and copies the
// strategy to the template, so that the next VMI is born with it. What is there is left
// alone, even if it means nothing: the owner sees the word that was written, and
// maintenance takes it for Migrate. Neither makes KubeVirt ask for a restart, which it
// does for changes of the template's spec alone.
func completeStrategy(vm *machine) []operation {
	var operations []operation
	strategy, ok := vm.Labels[maintenance.LabelStrategy]
	if !ok {
		strategy = string(maintenance.StrategyMigrate)
		operations = append(operations, setKey(vm.Labels, []string{"metadata", "labels"}, maintenance.LabelStrategy, strategy))
	}
	labels := vm.templateLabels()
	if copied, ok := labels[maintenance.LabelStrategy]; vm.template == nil || ok && copied == strategy {
		return operations
	}
	if vm.template.Metadata == nil {
		whole := map[string]any{"labels": map[string]string{maintenance.LabelStrategy: strategy}}
		return append(operations, operation{Op: "add", Path: path("spec", "template", "metadata"), Value: whole})
	}
	return append(operations, setKey(labels, []string{"spec", "template", "metadata", "labels"}, maintenance.LabelStrategy, strategy))
}

// startedByHand reports that somebody starts a VM that waits for a maintenance. The wait
// is over, also when the VM is stopped again before any controller has looked: its owner
// has taken it into their own hands. The record stays until the VM runs: not every such
// write starts one (pkg/plan, restart.go).
//
// `virtctl start` and Harvester's front-end call KubeVirt's start subresource, which
// patches the VM under virt-api's account. That account acts for a person always, so it
// is none of the exceptions. They are two:
//   - Drydock's own start, told by the starting record, which this very write brings.
//     One that was there before does not count: then the VM was stopped after Drydock
//     had started it, and is started again now.
//   - virt-controller, when it finds a start request on a halted VM. That is left from
//     before the stop, and Drydock halts the VM again (pkg/plan, restart.go). Unless the
//     request asks for a paused start: on a halted VM virt-api makes a request only of
//     those, so a person stands behind it.
func startedByHand(old, now *machine, byVirtController bool) bool {
	if _, waits := now.Annotations[maintenance.AnnotationMarker]; !waits || !old.halted() || now.halted() {
		return false
	}
	if startingRecord(now) && !startingRecord(old) {
		return false
	}
	return !byVirtController || old.startedPaused()
}

func startingRecord(vm *machine) bool {
	record, err := maintenance.VMRecordOf(&metav1.ObjectMeta{UID: vm.UID, Annotations: vm.Annotations})
	return err == nil && record != nil && record.Starting
}
