package install

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

// caller calls the API with a token of a service account that may do everything.
func caller(t *testing.T, c *cluster.Cluster, address string) func(method, path, body string) int {
	t.Helper()
	ns := c.Namespace(t)
	bindings := c.Kube.RbacV1().ClusterRoleBindings()
	_, err := bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "default"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bindings.Delete(context.Background(), ns, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	token, err := c.Kube.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	return func(method, path, body string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "https://"+address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token.Status.Token)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close() //nolint:errcheck // only read from
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode >= http.StatusBadRequest {
			t.Logf("%s %s answers %d %.300s", method, path, response.StatusCode, answer)
		}
		return response.StatusCode
	}
}

// ask uses what the API does with rights of its own, for a host that is in maintenance.
func ask(t *testing.T, c *cluster.Cluster, m *manager.Manager, host string) {
	t.Helper()
	address, err := m.Address("api")
	if err != nil {
		t.Fatal(err)
	}
	inventory(t, c, host)
	call := caller(t, c, address)
	for _, path := range []string{"/v1/harvester/namespaces", "/v1/harvester/pods", "/v1/harvester/nodes"} {
		if code := call(http.MethodGet, path, ""); code != http.StatusOK {
			t.Errorf("GET %s answers %d", path, code)
		}
	}
	for _, action := range []struct{ name, body string }{{"powerActionPossible", "{}"}, {"powerAction", `{"operation":"reboot"}`}} {
		if code := call(http.MethodPost, "/v1/harvester/nodes/"+host+"?action="+action.name, action.body); code != http.StatusNoContent {
			t.Errorf("%s answers %d", action.name, code)
		}
	}
}

var (
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	addons      = schema.GroupVersionResource{Group: "harvesterhci.io", Version: "v1beta1", Resource: "addons"}
	upgrades    = schema.GroupVersionResource{Group: "harvesterhci.io", Version: "v1beta1", Resource: "upgrades"}
	inventories = schema.GroupVersionResource{Group: "metal.harvesterhci.io", Version: "v1alpha1", Resource: "inventories"}
)

// harvester gives the cluster Harvester's definitions until the test ends.
func harvester(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	define(t, c, upgrades, "Upgrade", "upgrade")
	define(t, c, addons, "Addon", "addon")
	// Without a status subresource, as Harvester had it: both ways to write are tried.
	define(t, c, inventories, "Inventory", "inventory")
	put(t, c, addons, map[string]any{"kind": "Addon", "metadata": map[string]any{"name": "harvester-seeder"}, "spec": map[string]any{"enabled": true}})
}

func inventory(t *testing.T, c *cluster.Cluster, host string) {
	t.Helper()
	put(t, c, inventories, map[string]any{"kind": "Inventory", "metadata": map[string]any{"name": host}, "status": map[string]any{"status": "inventoryNodeReady"}})
}

func define(t *testing.T, c *cluster.Cluster, resource schema.GroupVersionResource, kind, singular string) {
	t.Helper()
	name := resource.Resource + "." + resource.Group
	_, err := c.Dynamic.Resource(crds).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": resource.Group, "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "plural": resource.Resource, "singular": singular},
			"versions": []any{map[string]any{
				"name": resource.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Dynamic.Resource(crds).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// put makes an object in Harvester's namespace, as soon as its kind is served. It goes with
// its definition.
func put(t *testing.T, c *cluster.Cluster, resource schema.GroupVersionResource, object map[string]any) {
	t.Helper()
	object["apiVersion"] = resource.GroupVersion().String()
	c.Eventually(t, resource.Resource+" can be made", func(ctx context.Context) error {
		_, err := c.Dynamic.Resource(resource).Namespace("harvester-system").Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		return err
	})
}
