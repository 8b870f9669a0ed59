package plan

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// nodeUnreachable reports a node whose kubelet no longer answers: what was deleted
// there may stay for ever, and what ran there may still run.
func nodeUnreachable(node *corev1.Node) bool {
	c := maintenance.NodeCondition(node, corev1.NodeReady)
	return c == nil || c.Status == corev1.ConditionUnknown
}

// TakesOthers reports that a change of a node may change which VMs of other nodes it
// can take.
func TakesOthers(words maintenance.Vocabulary, before, now *corev1.Node) bool {
	return before.Spec.Unschedulable != now.Spec.Unschedulable || maintenance.NodeReady(before) != maintenance.NodeReady(now) ||
		words.Engaged(before) != words.Engaged(now) ||
		!equality.Semantic.DeepEqual(before.Spec.Taints, now.Spec.Taints) || !maps.Equal(before.Labels, now.Labels)
}

// engaged reports a node in maintenance by whoever's hand, or on its way there, or with
// a grant that it may not show yet.
func (s *situation) engaged(node *corev1.Node) bool {
	return s.words.Engaged(node) || s.Granted[node.Name]
}

// available reports whether VMs can be placed on a node: Ready, schedulable and out
// of maintenance.
func (s *situation) available(node *corev1.Node) bool {
	return maintenance.NodeReady(node) && !node.Spec.Unschedulable && !s.engaged(node)
}

var memberRoles = []string{
	"node-role.kubernetes.io/control-plane",
	"node-role.kubernetes.io/master",
	"node-role.kubernetes.io/etcd",
}

// quorumMember reports a node that carries a part of the control plane's quorum. A
// witness carries the etcd role and counts.
func quorumMember(node *corev1.Node) bool {
	for _, role := range memberRoles {
		if _, ok := node.Labels[role]; ok {
			return true
		}
	}
	return false
}

func hasTaint(node *corev1.Node, key string) bool {
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == key {
			return true
		}
	}
	return false
}
