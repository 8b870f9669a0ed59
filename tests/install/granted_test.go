package install

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drydock-dev/drydock/tests/cluster"
)

// right is one thing that a role allows: a rule is all the combinations of its lists.
type right struct {
	// namespace is "" for the whole cluster.
	namespace, group, resource, verb string
	// name is "" for all objects.
	name string
}

func (r right) String() string {
	what := r.resource
	if r.group != "" {
		what += "." + r.group
	}
	for _, part := range []struct{ word, value string }{{" named ", r.name}, {" in ", r.namespace}} {
		if part.value != "" {
			what += part.word + part.value
		}
	}
	return r.verb + " " + what
}

// covers reports that the request needs the right, or at least may use it.
func (r right) covers(request cluster.Request) bool {
	resource := request.Resource
	if request.Subresource != "" {
		resource += "/" + request.Subresource
	}
	return r.group == request.Group && r.resource == resource && r.verb == request.Verb &&
		(r.namespace == "" || r.namespace == request.Namespace) && (r.name == "" || r.name == request.Name)
}

// granted lists what the roles among the objects allow. A wildcard fails the test: what it
// grants cannot be listed.
func granted(t *testing.T, objects []*unstructured.Unstructured) []right {
	t.Helper()
	var rights []right
	for _, object := range objects {
		var rules []rbacv1.PolicyRule
		switch object.GetKind() {
		case "Role", "ClusterRole":
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
				t.Fatal(err)
			}
			rules = role.Rules
		case "RoleBinding", "ClusterRoleBinding":
			// Of roles that are not the chart's own nobody would know what they grant.
			kind, _, _ := unstructured.NestedString(object.Object, "roleRef", "kind")
			name, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
			if name != release && !slices.Contains(systemRoles, kind+"/"+name) {
				t.Errorf("%s %s: binds %s %s", object.GetKind(), object.GetName(), kind, name)
			}
		}
		for _, rule := range rules {
			rights = append(rights, product(rule, object.GetNamespace())...)
		}
	}
	for _, r := range rights {
		if strings.Contains(fmt.Sprint(r), "*") {
			t.Errorf("%s: a wildcard", r)
		}
	}
	return rights
}

func product(rule rbacv1.PolicyRule, namespace string) []right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var rights []right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					rights = append(rights, right{namespace: namespace, group: group, resource: resource, verb: verb, name: name})
				}
			}
		}
	}
	return rights
}

// systemRoles are roles that Kubernetes has for the purpose.
var systemRoles = []string{"Role/extension-apiserver-authentication-reader"}

// everybody are requests for which no right is needed.
func everybody(request cluster.Request) bool {
	return request.Resource == "" || request.Resource == "selfsubjectreviews"
}

// unused are rights that no request has used, refused the requests that were refused.
func unused(rights []right, requests []cluster.Request) (missing []right, refused []string) {
	for _, r := range rights {
		if slices.ContainsFunc(requests, r.covers) {
			continue
		}
		// A cache is filled by its watch where the API server can do that, as this one,
		// and by a list before it where it cannot.
		if watch := r; r.verb == "list" {
			watch.verb = "watch"
			if slices.ContainsFunc(requests, watch.covers) {
				continue
			}
		}
		missing = append(missing, r)
	}
	for _, request := range requests {
		if request.Code == 401 || request.Code == 403 {
			refused = append(refused, request.String())
		}
	}
	slices.SortFunc(missing, func(a, b right) int { return cmp.Compare(a.String(), b.String()) })
	slices.Sort(refused)
	return missing, slices.Compact(refused)
}
