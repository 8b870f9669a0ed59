package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// ErrNotAllowed is wrapped by errors that name the right which is missing.
var ErrNotAllowed = errors.New("not allowed")

// Caller is on whose behalf a request is served.
type Caller struct {
	user.Info
	// By is who sent the request in the name of another, nil where nobody did.
	By user.Info
}

// Impersonate returns on whose behalf the request is served: its sender, or whom the
// sender impersonates with the headers that the Kubernetes API takes. Each user, group,
// UID and extra value is a right of its own.
func (a *Authorizer) Impersonate(ctx context.Context, sender user.Info, header http.Header) (*Caller, error) {
	wanted := &user.DefaultInfo{
		Name:   header.Get(authenticationv1.ImpersonateUserHeader),
		UID:    header.Get(authenticationv1.ImpersonateUIDHeader),
		Groups: slices.Clone(header.Values(authenticationv1.ImpersonateGroupHeader)),
		Extra:  impersonatedExtra(header),
	}
	if wanted.Name == "" {
		if wanted.UID != "" || len(wanted.Groups) > 0 || len(wanted.Extra) > 0 {
			return nil, fmt.Errorf("%w: %s is missing; it goes with the other headers that impersonate", ErrNotAllowed, authenticationv1.ImpersonateUserHeader)
		}
		return &Caller{Info: sender}, nil
	}
	for _, right := range impersonation(wanted) {
		allowed, err := a.May(ctx, sender, right)
		if err != nil {
			return nil, err
		}
		if !allowed {
			return nil, fmt.Errorf("%w: %s may not %s", ErrNotAllowed, sender.GetName(), right)
		}
	}
	wanted.Groups = impliedGroups(wanted)
	return &Caller{Info: wanted, By: sender}, nil
}

func impersonation(wanted *user.DefaultInfo) []Right {
	const verb, group = "impersonate", "authentication.k8s.io"
	var rights []Right
	if namespace, name, err := serviceaccount.SplitUsername(wanted.Name); err == nil {
		rights = append(rights, Right{Verb: verb, Resource: "serviceaccounts", Namespace: namespace, Name: name})
	} else {
		rights = append(rights, Right{Verb: verb, Resource: "users", Name: wanted.Name})
	}
	for _, name := range wanted.Groups {
		rights = append(rights, Right{Verb: verb, Resource: "groups", Name: name})
	}
	if wanted.UID != "" {
		rights = append(rights, Right{Verb: verb, Group: group, Resource: "uids", Name: wanted.UID})
	}
	for key, values := range wanted.Extra {
		for _, value := range values {
			rights = append(rights, Right{Verb: verb, Group: group, Resource: "userextras", Subresource: key, Name: value})
		}
	}
	return rights
}

// impliedGroups adds the groups that every user of its kind is in, as the Kubernetes API
// does.
func impliedGroups(wanted *user.DefaultInfo) []string {
	groups := wanted.Groups
	if namespace, _, err := serviceaccount.SplitUsername(wanted.Name); err == nil && len(groups) == 0 {
		groups = append(groups, serviceaccount.MakeGroupNames(namespace)...)
	}
	if wanted.Name == user.Anonymous {
		if !slices.Contains(groups, user.AllUnauthenticated) {
			groups = append(groups, user.AllUnauthenticated)
		}
		return groups
	}
	if !slices.Contains(groups, user.AllAuthenticated) && !slices.Contains(groups, user.AllUnauthenticated) {
		groups = append(groups, user.AllAuthenticated)
	}
	return groups
}

// impersonatedExtra reads the headers whose name ends in the key, which is in lower case
// and percent-encoded.
func impersonatedExtra(header http.Header) map[string][]string {
	extra := map[string][]string{}
	for name, values := range header {
		if len(name) <= len(authenticationv1.ImpersonateUserExtraHeaderPrefix) || !strings.EqualFold(name[:len(authenticationv1.ImpersonateUserExtraHeaderPrefix)], authenticationv1.ImpersonateUserExtraHeaderPrefix) {
			continue
		}
		key := strings.ToLower(name[len(authenticationv1.ImpersonateUserExtraHeaderPrefix):])
		if decoded, err := url.PathUnescape(key); err == nil {
			key = decoded
		}
		extra[key] = append(extra[key], values...)
	}
	return extra
}
