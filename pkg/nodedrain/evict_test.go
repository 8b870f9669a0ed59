package nodedrain

import (
	"context"
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
)

// answering takes one eviction and gives one answer.
type answering struct {
	policyclient.EvictionExpansion
	namespace string
	got       *policyv1.Eviction
	answer    error
}

func (a *answering) Evictions(namespace string) policyclient.EvictionInterface {
	a.namespace = namespace
	return a
}

func (a *answering) Evict(_ context.Context, eviction *policyv1.Eviction) error {
	a.got = eviction
	return a.answer
}

// The library's own request has neither the UID nor the pod's own grace period: a zero
// there means "kill now".
func TestAnEvictionIsOfExactlyThisPodWithItsOwnGrace(t *testing.T) {
	client := &answering{}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "u1"}}
	if code, message, err := NewEvictor(client).Evict(t.Context(), pod); code != http.StatusCreated || message != "" || err != nil {
		t.Errorf("%d %q %v", code, message, err)
	}
	if client.namespace != "shop" || client.got.Namespace != "shop" || client.got.Name != "web-0" {
		t.Errorf("the eviction is of %s/%s", client.got.Namespace, client.got.Name)
	}
	options := client.got.DeleteOptions
	if options == nil || options.Preconditions == nil || options.Preconditions.UID == nil || *options.Preconditions.UID != "u1" {
		t.Errorf("the eviction does not name the pod's UID: %+v", options)
	}
	if options != nil && (options.GracePeriodSeconds != nil || options.PropagationPolicy != nil || len(options.DryRun) > 0) {
		t.Errorf("the eviction has options of its own: %+v", options)
	}
}

func TestAnAnswerThatSaysNoIsAValue(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	broken := errors.New("connection refused")
	for name, c := range map[string]struct {
		answer  error
		code    int
		message string
		err     error
	}{
		"gone already":                    {answer: apierrors.NewNotFound(pods, "web-0"), code: http.StatusOK},
		"another pod by now":              {answer: apierrors.NewConflict(pods, "web-0", errors.New("uid")), code: http.StatusOK},
		"held by a budget, or on its way": {answer: apierrors.NewTooManyRequests("the budget web needs 1 healthy pod", 0), code: http.StatusTooManyRequests, message: "the budget web needs 1 healthy pod"},
		"two budgets":                     {answer: apierrors.NewInternalError(errors.New("more than one PodDisruptionBudget")), code: http.StatusInternalServerError, message: "Internal error occurred: more than one PodDisruptionBudget"},
		"namespace is terminating":        {answer: apierrors.NewForbidden(pods, "web-0", errors.New("terminating")), code: http.StatusForbidden, message: `pods "web-0" is forbidden: terminating`},
		"no answer":                       {answer: broken, err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			code, message, err := NewEvictor(&answering{answer: c.answer}).Evict(t.Context(), &corev1.Pod{})
			if code != c.code || message != c.message || !errors.Is(err, c.err) {
				t.Errorf("got %d %q %v, want %d %q %v", code, message, err, c.code, c.message, c.err)
			}
		})
	}
}
