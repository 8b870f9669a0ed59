package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Key names the VM, or the VMI where there is no VM, as people do.
func (i *Instance) Key() types.NamespacedName {
	if i.VM != nil {
		return types.NamespacedName{Namespace: i.VM.Namespace, Name: i.VM.Name}
	}
	return types.NamespacedName{Namespace: i.VMI.Namespace, Name: i.VMI.Name}
}

// paused reports a guest whose memory is kept and whose processors stand still. A
// migration keeps it so, a shutdown loses it.
func (i *Instance) paused() bool { return i.conditionTrue(kubevirtv1.VirtualMachineInstancePaused) }

// on reports whether the VMI lives on the node, as opposed to being on its way there.
func (i *Instance) on(node string) bool {
	if i.VMI.Status.NodeName != "" {
		return i.VMI.Status.NodeName == node
	}
	return len(i.Launchers) > 0
}

// departed reports that the VMI's latest migration led away from the node.
func (i *Instance) departed(node string) bool {
	state, next := i.VMI.Status.MigrationState, i.migration()
	return !i.on(node) && state != nil && state.SourceNode == node && (next == nil || next.UID == state.MigrationUID)
}

// movedUnseen reports a VMI whose latest migration has led away from the node although
// the VMI does not say so yet: of two objects that change together one is seen first.
func (i *Instance) movedUnseen(node string) bool {
	state := i.VMI.Status.MigrationState
	if state == nil || len(i.Migrations) == 0 {
		return false
	}
	last := i.Migrations[len(i.Migrations)-1]
	return last.Status.Phase == kubevirtv1.MigrationSucceeded && last.UID == state.MigrationUID && state.SourceNode == node
}

// migration returns the unfinished migration, nil when there is none. KubeVirt
// admits only one at a time.
func (i *Instance) migration() *kubevirtv1.VirtualMachineInstanceMigration {
	for _, m := range i.Migrations {
		if !m.IsFinal() {
			return m
		}
	}
	return nil
}

// migrationUnderWay reports a migration that moves memory: one before that can be
// withdrawn without the guest noticing.
func migrationUnderWay(m *kubevirtv1.VirtualMachineInstanceMigration) bool {
	return m.Status.Phase == kubevirtv1.MigrationRunning
}

// ours reports whether a migration belongs to this maintenance: KubeVirt made it for an
// evacuation of the node, or Drydock did itself, for this maintenance and no other. Where
// there is none any more, whatever Drydock made is a remnant.
func (s *situation) ours(m *kubevirtv1.VirtualMachineInstanceMigration) bool {
	if id, own := m.Labels[maintenance.LabelOwnMigration]; own {
		return s.record == nil || id == s.record.ID
	}
	return m.Annotations[kubevirtv1.EvacuationMigrationAnnotation] == s.Name
}

// failures counts the migrations of this drain that failed since it began, and
// returns the last.
func (s *situation) failures(i *Instance) (int, *kubevirtv1.VirtualMachineInstanceMigration) {
	var count int
	var last *kubevirtv1.VirtualMachineInstanceMigration
	for _, m := range i.Migrations {
		if m.Status.Phase == kubevirtv1.MigrationFailed && s.ours(m) && !m.CreationTimestamp.Before(&s.record.Started) {
			count++
			last = m
		}
	}
	return count, last
}

// unschedulable reports that the target pod of the unfinished migration found no
// node, with the scheduler's words.
func (i *Instance) unschedulable() (string, bool) {
	for _, pod := range i.Targets {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				return c.Message, true
			}
		}
	}
	return "", false
}

// outlived names what is left of an earlier migration and keeps KubeVirt from beginning
// another, "" when there is nothing: a launcher elsewhere that no migration belongs to.
// KubeVirt leaves the target behind of one that was deleted as it was made, and that
// launcher waits some minutes for the guest before it ends.
func (i *Instance) outlived() string {
	if len(i.Targets) == 0 || i.migration() != nil {
		return ""
	}
	pod := i.Targets[0]
	return fmt.Sprintf("is waiting for pod %s of an earlier migration to end, which KubeVirt begins no other before", pod.Namespace+"/"+pod.Name)
}

func (i *Instance) condition(t kubevirtv1.VirtualMachineInstanceConditionType) *kubevirtv1.VirtualMachineInstanceCondition {
	for n := range i.VMI.Status.Conditions {
		if i.VMI.Status.Conditions[n].Type == t {
			return &i.VMI.Status.Conditions[n]
		}
	}
	return nil
}

func (i *Instance) conditionTrue(t kubevirtv1.VirtualMachineInstanceConditionType) bool {
	c := i.condition(t)
	return c != nil && c.Status == corev1.ConditionTrue
}

// EvictionStrategyOf is what KubeVirt obeys: the VMI's own, else the cluster's, nil where
// that is unset.
func EvictionStrategyOf(vmi *kubevirtv1.VirtualMachineInstance, cluster *kubevirtv1.EvictionStrategy) kubevirtv1.EvictionStrategy {
	switch {
	case vmi.Spec.EvictionStrategy != nil:
		return *vmi.Spec.EvictionStrategy
	case cluster != nil:
		return *cluster
	}
	return kubevirtv1.EvictionStrategyNone
}

// consent is the eviction strategy that the owner wrote; "" when none. The VMI's own
// does not tell: KubeVirt copies the cluster's default into it.
func (i *Instance) consent() kubevirtv1.EvictionStrategy {
	if i.VM == nil || i.VM.Spec.Template == nil || i.VM.Spec.Template.Spec.EvictionStrategy == nil {
		return ""
	}
	return *i.VM.Spec.Template.Spec.EvictionStrategy
}

// grace is the seconds that the guest has to shut down, KubeVirt's default if unset.
func (i *Instance) grace() int64 {
	if i.VMI.Spec.TerminationGracePeriodSeconds != nil {
		return *i.VMI.Spec.TerminationGracePeriodSeconds
	}
	return kubevirtv1.DefaultGracePeriodSeconds
}

// NodesOf are the nodes that a VMI touches: where it lives, where an unfinished
// migration brings it, and which node's evacuation it is marked for.
func NodesOf(vmi *kubevirtv1.VirtualMachineInstance) []string {
	var nodes []string
	if name := vmi.Status.NodeName; name != "" {
		nodes = append(nodes, name)
	}
	if state := vmi.Status.MigrationState; state != nil && !state.Completed && state.TargetNode != "" {
		nodes = append(nodes, state.TargetNode)
	}
	if name := vmi.Status.EvacuationNodeName; name != "" {
		nodes = append(nodes, name)
	}
	return nodes
}

// VMIOf returns the name of the VMI that a launcher pod belongs to, "" when it has no such
// owner. The reference may name any API version.
func VMIOf(pod metav1.Object) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "VirtualMachineInstance" {
		return owner.Name
	}
	return ""
}

// PodFinal reports a pod that has ended.
func PodFinal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// RunStrategyOf returns what the VM's spec says, by spec.runStrategy or spec.running. A
// VM with neither, as old stored objects may be, is Halted. KubeVirt's own function fails
// where both are set, which its webhook refuses; Drydock's may be asked before that one.
func RunStrategyOf(vm *kubevirtv1.VirtualMachine) kubevirtv1.VirtualMachineRunStrategy {
	switch {
	case vm.Spec.RunStrategy != nil:
		return *vm.Spec.RunStrategy
	case vm.Spec.Running != nil && *vm.Spec.Running:
		return kubevirtv1.RunStrategyAlways
	}
	return kubevirtv1.RunStrategyHalted
}

func halted(vm *kubevirtv1.VirtualMachine) bool {
	return RunStrategyOf(vm) == kubevirtv1.RunStrategyHalted
}

// hasEnded reports a migration that is known to have ended.
func (i *Instance) hasEnded(migration types.UID) bool {
	return slices.ContainsFunc(i.Migrations, func(m *kubevirtv1.VirtualMachineInstanceMigration) bool { return m.UID == migration && m.IsFinal() })
}

// Migrates reports that a VMI shows a migration that has not ended.
func Migrates(vmi *kubevirtv1.VirtualMachineInstance) bool {
	state := vmi.Status.MigrationState
	return state != nil && !state.Completed && !state.Failed
}
