package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// intent is what an action writes to a node: annotations, of which nil removes one, and
// whether it takes pods.
type intent struct {
	annotations   map[string]any
	unschedulable *bool
}

// write merges the intent into the node. The patch names the node's UID, so that it never
// reaches a new node of the same name, but no resourceVersion: what it sets and removes is
// meant whatever else has changed, and kubelets write all the time.
func (s *server) write(ctx context.Context, node *corev1.Node, wanted intent) error {
	metadata := map[string]any{"uid": node.UID}
	if len(wanted.annotations) > 0 {
		// A null in its place would take all annotations away.
		metadata["annotations"] = wanted.annotations
	}
	body := map[string]any{"metadata": metadata}
	if wanted.unschedulable != nil {
		body["spec"] = map[string]any{"unschedulable": *wanted.unschedulable}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("patch of node %s: %w", node.Name, err)
	}
	return retry.OnError(again, temporary, func() error {
		_, err := s.Nodes.Patch(ctx, node.Name, types.MergePatchType, raw, metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return problemf(http.StatusNotFound, "node %q does not exist", node.Name)
		}
		return err
	})
}

// again is how long a write is tried: about two seconds.
var again = wait.Backoff{Steps: 6, Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2}

// temporary tells errors that may be gone at the next attempt. All that is written here
// may be written twice.
func temporary(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}
