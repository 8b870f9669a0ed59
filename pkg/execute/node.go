package execute

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// cordon makes the node unschedulable and says so in the record in one write: without
// the mark a schedulable draining node is not cordoned yet, with it a human uncordoned.
func (e *Executor) cordon(ctx context.Context, node *corev1.Node, record *maintenance.NodeRecord) (*corev1.Node, error) {
	return e.patchNode(ctx, node, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{maintenance.AnnotationNodeRecord: record.Encode()}},
		"spec":     map[string]any{"unschedulable": true},
	})
}

func (e *Executor) uncordon(ctx context.Context, node *corev1.Node) (*corev1.Node, error) {
	return e.patchNode(ctx, node, map[string]any{"spec": map[string]any{"unschedulable": nil}})
}

// removeTaint takes a taint away. The list is replaced as a whole, which the
// resourceVersion makes safe.
func (e *Executor) removeTaint(ctx context.Context, node *corev1.Node, key string) (*corev1.Node, error) {
	kept := []corev1.Taint{}
	for _, taint := range node.Spec.Taints {
		if taint.Key != key {
			kept = append(kept, taint)
		}
	}
	return e.patchNode(ctx, node, map[string]any{"spec": map[string]any{"taints": kept}})
}

func (e *Executor) patchNode(ctx context.Context, node *corev1.Node, body map[string]any) (*corev1.Node, error) {
	metadata, _ := body["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		body["metadata"] = metadata
	}
	metadata["resourceVersion"] = node.ResourceVersion
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("patch of node %s: %w", node.Name, err)
	}
	updated, err := e.nodes.Patch(ctx, node.Name, types.MergePatchType, raw, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	return updated, nil
}
