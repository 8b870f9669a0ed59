package simulator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// reconcileNode keeps one Longhorn Node per host.
func (l *longhorn) reconcileNode(ctx context.Context, name string) (time.Duration, error) {
	nodes := l.client.Resource(longhornResource("nodes")).Namespace(longhornNamespace)
	current, known := l.registry.get(name)
	existing := cached(l.lhNode, name)
	object, exists, err := l.nodes.GetIndexer().GetByKey(name)
	if err != nil {
		return 0, fmt.Errorf("look up node %q: %w", name, err)
	}
	switch {
	case !exists && existing != nil:
		err := nodes.Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("delete Longhorn's node %q: %w", name, err)
		}
		return 0, nil
	case !exists || !known:
		return 0, nil
	case existing == nil:
		_, err := nodes.Create(ctx, newLonghornNode(name), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return 0, fmt.Errorf("create Longhorn's node %q: %w", name, err)
		}
		return 0, nil
	}
	return 0, l.write(ctx, "nodes", existing, nil, longhornNodeStatus(existing, object.(*corev1.Node), current.on))
}

func newLonghornNode(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "longhorn.io/v1beta2", "kind": "Node",
		"metadata": map[string]any{"namespace": longhornNamespace, "name": name},
		"spec": map[string]any{
			"name": name, "allowScheduling": true, "evictionRequested": false, "tags": []any{},
			"disks": map[string]any{"default-disk": map[string]any{
				"diskType": "filesystem", "path": "/var/lib/harvester/defaultdisk", "allowScheduling": true,
				"evictionRequested": false, "storageReserved": int64(0), "tags": []any{},
			}},
		},
	}}
}

// longhornNodeStatus follows Kubernetes' opinion of the host, as longhorn-manager
// on the other hosts does: a power loss shows when the Node is NotReady.
func longhornNodeStatus(existing *unstructured.Unstructured, node *corev1.Node, on bool) map[string]any {
	ready, readyReason, readyMessage := "True", "", "Node "+node.Name+" is ready"
	if !on || !nodeIsReady(node) {
		ready, readyReason, readyMessage = "False", "KubernetesNodeNotReady", "Kubernetes node "+node.Name+" not ready"
	}
	schedulable, reason, message := "True", "", ""
	if node.Spec.Unschedulable {
		schedulable, reason, message = "False", "KubernetesNodeCordoned", "Node "+node.Name+" is cordoned"
	}
	past, _, _ := unstructured.NestedSlice(existing.Object, "status", "conditions")
	return map[string]any{"conditions": []any{
		longhornCondition(past, "Ready", ready, readyReason, readyMessage),
		longhornCondition(past, "Schedulable", schedulable, reason, message),
	}}
}

func nodeIsReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func longhornCondition(past []any, kind, value, reason, message string) map[string]any {
	since := time.Now().UTC().Format(time.RFC3339)
	for _, item := range past {
		before, ok := item.(map[string]any)
		if ok && before["type"] == kind && before["status"] == value {
			if at, ok := before["lastTransitionTime"].(string); ok {
				since = at
			}
		}
	}
	return map[string]any{
		"type": kind, "status": value, "reason": reason, "message": message, "lastProbeTime": "", "lastTransitionTime": since,
	}
}
