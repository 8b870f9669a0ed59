package maintenance

import (
	corev1 "k8s.io/api/core/v1"
)

// ConditionType is the Node condition that is the state machine's public face: its
// reason is the [Phase], its message one sentence about what is going on.
const ConditionType corev1.NodeConditionType = "MaintenanceMode"

// Phase is the reason of the condition.
type Phase string

const (
	// PhaseNone surfaces when the node has no condition: it is not in maintenance.
	PhaseNone Phase = ""
	// PhaseValidating surfaces while the pre-checks run; nothing has been changed.
	PhaseValidating Phase = "Validating"
	// PhaseDraining surfaces while VMs are stopped or moved and pods evicted.
	PhaseDraining Phase = "Draining"
	// PhaseEvacuating surfaces when nothing is left to evict and the last VMs and
	// pods are on their way.
	PhaseEvacuating Phase = "Evacuating"
	// PhaseCompleted surfaces when the node may be rebooted.
	PhaseCompleted Phase = "Completed"
	// PhaseError surfaces with status False when a request was refused and nothing
	// was changed, and with status True when a drain was given up after the cordon.
	PhaseError Phase = "Error"
)

// Condition returns the node's MaintenanceMode condition, or nil.
func Condition(node *corev1.Node) *corev1.NodeCondition { return NodeCondition(node, ConditionType) }

// NodeCondition returns one of the node's conditions, or nil.
func NodeCondition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// NodeReady reports the Ready condition; a node without one is not ready.
func NodeReady(node *corev1.Node) bool {
	c := NodeCondition(node, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// PhaseOf returns the phase that the node's condition shows.
func PhaseOf(node *corev1.Node) Phase {
	if c := Condition(node); c != nil {
		return Phase(c.Reason)
	}
	return PhaseNone
}

// Engaged reports whether the node is in maintenance or on its way there, by
// whoever's hand: it then counts as unavailable everywhere. The annotation alone
// is enough, because Harvester's own controllers know no condition, and so is
// Drydock's record, which outlives both while the node is being left.
func Engaged(node *corev1.Node) bool {
	if c := Condition(node); c != nil && c.Status == corev1.ConditionTrue {
		return true
	}
	if _, ok := node.Annotations[AnnotationStatus]; ok {
		return true
	}
	return Recorded(node)
}

// Recorded reports whether the node has a record of Drydock's, be it one that cannot be
// read: its maintenance is Drydock's own and nobody else's.
func Recorded(node *corev1.Node) bool {
	_, ok := node.Annotations[AnnotationNodeRecord]
	return ok
}
