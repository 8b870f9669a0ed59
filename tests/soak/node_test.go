package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// annotate sets annotations of a host; an empty value removes one.
func (w *world) annotate(ctx context.Context, host string, values map[string]string) error {
	changes := map[string]any{}
	for key, value := range values {
		changes[key] = nil
		if value != "" {
			changes[key] = value
		}
	}
	return w.patchNode(ctx, host, map[string]any{"metadata": map[string]any{"annotations": changes}})
}

// cordon does so, or the opposite, by hand.
func (w *world) cordon(ctx context.Context, host string, yes bool) error {
	return w.patchNode(ctx, host, map[string]any{"spec": map[string]any{"unschedulable": yes}})
}

func (w *world) patchNode(ctx context.Context, host string, body map[string]any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("patch of host %s: %w", host, err)
	}
	if _, err := w.c.Kube.CoreV1().Nodes().Patch(ctx, host, types.MergePatchType, raw, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch of host %s: %w", host, err)
	}
	return nil
}

// watch looks at a host until the condition holds. It asks, because a watch of a round
// would outlive it and be counted.
func (w *world) watch(ctx context.Context, host string, condition func(*corev1.Node) (bool, error)) error {
	for {
		node, err := w.c.Kube.CoreV1().Nodes().Get(ctx, host, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading host %s: %w", host, err)
		}
		if done, err := condition(node); done || err != nil {
			return err
		}
		if err := pause(ctx, 150*time.Millisecond); err != nil {
			return fmt.Errorf("host %s: %v, annotations %v: %w", host, maintenance.Condition(node), node.Annotations, err)
		}
	}
}

// reached waits for the phase in which nothing more happens by itself.
func (w *world) reached(ctx context.Context, host string) (string, error) {
	var phase maintenance.Phase
	err := w.watch(ctx, host, func(node *corev1.Node) (bool, error) {
		phase = maintenance.PhaseOf(node)
		return slices.Contains([]maintenance.Phase{maintenance.PhaseCompleted, maintenance.PhaseError}, phase), nil
	})
	return string(phase), err
}

// leave takes a host out of whatever it is in, and checks that it is cordoned only if
// somebody had done so before.
func (w *world) leave(ctx context.Context, host string, cordoned bool) error {
	return w.watch(ctx, host, func(node *corev1.Node) (bool, error) {
		shown := node.DeepCopy()
		shown.Spec.Unschedulable = false
		if wrongNode(shown) == "" {
			if node.Spec.Unschedulable != cordoned {
				return false, fmt.Errorf("after the maintenance its being cordoned is %v, want %v", node.Spec.Unschedulable, cordoned)
			}
			return true, w.cordon(ctx, host, false)
		}
		changes := map[string]string{maintenance.AnnotationRequested: "", maintenance.AnnotationForced: "", maintenance.AnnotationStatus: ""}
		if _, record := node.Annotations[maintenance.AnnotationNodeRecord]; maintenance.PhaseOf(node) == maintenance.PhaseError && !record {
			changes[maintenance.AnnotationClear] = "true"
		}
		return false, w.annotate(ctx, host, changes)
	})
}
