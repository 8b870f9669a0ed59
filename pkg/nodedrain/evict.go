package nodedrain

import (
	"context"
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
)

// Evictor asks for evictions.
type Evictor struct {
	client policyclient.EvictionsGetter
}

// NewEvictor returns an Evictor.
func NewEvictor(client policyclient.EvictionsGetter) *Evictor { return &Evictor{client: client} }

// Evict asks once for the eviction of exactly this pod, with its own grace period. It
// returns the HTTP status and text of the answer: an answer that says no is a value,
// not an error. A pod that is gone, or another one by now, counts as evicted.
func (e *Evictor) Evict(ctx context.Context, pod *corev1.Pod) (code int, message string, err error) {
	err = e.client.Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return http.StatusCreated, "", nil
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return http.StatusOK, "", nil
	case errors.As(err, &status):
		return int(status.Status().Code), status.Status().Message, nil
	}
	return 0, "", err
}
