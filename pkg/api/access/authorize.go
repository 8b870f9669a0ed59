package access

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// A right that is taken away works for allowedMemory; one that is given works after
// deniedMemory.
const (
	allowedMemory = 10 * time.Second
	deniedMemory  = 5 * time.Second
)

// Right is what a caller wants to do, in the words of RBAC.
type Right struct {
	Verb, Group, Resource, Subresource, Namespace, Name string
}

// String says it as a sentence does.
func (r Right) String() string {
	what := r.Resource
	if r.Group != "" {
		what += "." + r.Group
	}
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	if r.Name != "" {
		what += fmt.Sprintf(" %q", r.Name)
	}
	return r.Verb + " " + what
}

// Authorizer asks the cluster what callers may.
type Authorizer struct {
	reviews authorizationclient.SubjectAccessReviewsGetter
	known   *memo[bool]
}

// NewAuthorizer returns an Authorizer that asks with the given client.
func NewAuthorizer(reviews authorizationclient.SubjectAccessReviewsGetter) *Authorizer {
	return &Authorizer{reviews: reviews, known: newMemo[bool]()}
}

// May reports whether somebody has a right. An error means that nobody knows.
func (a *Authorizer) May(ctx context.Context, who user.Info, right Right) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: right.Verb, Group: right.Group, Version: "*", Resource: right.Resource,
			Subresource: right.Subresource, Namespace: right.Namespace, Name: right.Name,
		},
	}
	if extra := who.GetExtra(); len(extra) > 0 {
		spec.Extra = make(map[string]authorizationv1.ExtraValue, len(extra))
		for key, values := range extra {
			spec.Extra[key] = values
		}
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("access review of %s: %w", who.GetName(), err)
	}
	key := sha256.Sum256(raw)
	return a.known.get(ctx, string(key[:]), remembered, func(ctx context.Context) (bool, error) {
		review, err := a.reviews.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("%w: may %s %s: %w", ErrUnavailable, who.GetName(), right, err)
		}
		return review.Status.Allowed && !review.Status.Denied, nil
	})
}

func remembered(allowed bool) time.Duration {
	if allowed {
		return allowedMemory
	}
	return deniedMemory
}
