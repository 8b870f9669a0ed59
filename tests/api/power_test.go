package api

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/operator"
)

var (
	addons      = schema.GroupVersionResource{Group: "harvesterhci.io", Version: "v1beta1", Resource: "addons"}
	inventories = schema.GroupVersionResource{Group: "metal.harvesterhci.io", Version: "v1alpha1", Resource: "inventories"}
)

// define makes a definition as small as one can be.
func (h *house) define(t *testing.T, kind string, what schema.GroupVersionResource, status bool) {
	t.Helper()
	client, err := apiextensions.NewForConfig(h.Admin)
	if err != nil {
		t.Fatal(err)
	}
	free := true
	version := apiextensionsv1.CustomResourceDefinitionVersion{
		Name: what.Version, Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &free}},
	}
	if status {
		version.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: what.Resource + "." + what.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: what.Group, Scope: apiextensionsv1.NamespaceScoped, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: what.Resource, Kind: kind, ListKind: kind + "List", Singular: what.Resource + "x"},
		},
	}
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := definitions.Create(t.Context(), definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = definitions.Delete(context.Background(), definition.Name, metav1.DeleteOptions{}) })
	h.Eventually(t, "the definition serves", func(ctx context.Context) error {
		_, err := h.Dynamic.Resource(what).Namespace("harvester-system").List(ctx, metav1.ListOptions{})
		return err
	})
}

func (h *house) put(t *testing.T, what schema.GroupVersionResource, kind, name string, spec, status map[string]any) {
	t.Helper()
	client := h.Dynamic.Resource(what).Namespace("harvester-system")
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": what.Group + "/" + what.Version, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
	made, err := client.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if status != nil {
		made.Object["status"] = status
		if _, err := client.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (h *house) mergeStatus(t *testing.T, name, patch string) {
	t.Helper()
	if _, err := h.Dynamic.Resource(inventories).Namespace("harvester-system").Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func (h *house) inventory(t *testing.T, name string) (requested, job string) {
	t.Helper()
	object, err := h.Dynamic.Resource(inventories).Namespace("harvester-system").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	requested, _, _ = unstructured.NestedString(object.Object, "spec", "powerActionRequested")
	job, _, _ = unstructured.NestedString(object.Object, "status", "powerAction", "lastJobName")
	return requested, job
}

// Not side by side with others, for which the definitions would come and go.
func TestPower(t *testing.T) {
	h := serving(t)
	host := h.Pool(t, 1).Host(0)
	c := h.account(t, viewNodes, updateNodes)
	nobody := func(when string) {
		t.Helper()
		if a := c.act(t, host, "powerActionPossible", "{}"); a.status != http.StatusFailedDependency || a.body != "" {
			t.Errorf("%s: answered %d %q, want 424 and nothing", when, a.status, a.body)
		}
	}
	nobody("without definitions")
	h.define(t, "Addon", addons, false)
	h.define(t, "Inventory", inventories, true)
	nobody("without the addon")
	h.put(t, addons, "Addon", "harvester-seeder", map[string]any{"enabled": false}, nil)
	nobody("with the addon off")
	if _, err := h.Dynamic.Resource(addons).Namespace("harvester-system").Patch(t.Context(), "harvester-seeder", types.MergePatchType, []byte(`{"spec":{"enabled":true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	nobody("without an inventory")
	h.put(t, inventories, "Inventory", host, map[string]any{"owner": "somebody"}, map[string]any{"status": "inventoryPending"})
	c.act(t, host, "powerActionPossible", "{}").want(t, http.StatusConflict, `status.status is "inventoryPending"`, `"inventoryNodeReady"`)
	h.mergeStatus(t, host, `{"status":{"status":"inventoryNodeReady","powerAction":{"lastJobName":"old-job"}}}`)
	c.act(t, host, "powerActionPossible", "{}").want(t, http.StatusNoContent)

	c.act(t, host, "powerAction", `{"operation":"shutdown"}`).want(t, http.StatusConflict, "not in maintenance")
	c.act(t, host, "powerAction", `{"operation":"off"}`).want(t, http.StatusUnprocessableEntity, `"off"`, `"poweron"`)
	c.act(t, host, "enableMaintenanceMode", "{}").want(t, http.StatusNoContent)
	operator.AwaitPhase(t, h.Cluster, host, maintenance.PhaseCompleted)
	for _, operation := range []string{"shutdown", "poweron", "reboot"} {
		c.act(t, host, "powerAction", `{"operation":"`+operation+`"}`).want(t, http.StatusNoContent)
		if requested, job := h.inventory(t, host); requested != operation || job != "" {
			t.Errorf("%s: the inventory asks for %q, its job is %q", operation, requested, job)
		}
		if operation == "shutdown" {
			c.act(t, host, "powerAction", `{"operation":"reboot"}`).want(t, http.StatusConflict, `"shutdown" has no outcome yet`)
		}
		h.mergeStatus(t, host, `{"status":{"powerAction":{"actionStatus":"complete","lastJobName":"job"}}}`)
	}
	c.act(t, host, "disableMaintenanceMode", "{}").want(t, http.StatusNoContent)
	operator.AwaitOut(t, h.Cluster, host)
	c.act(t, host, "powerAction", `{"operation":"poweron"}`).want(t, http.StatusConflict, "not in maintenance")

	// A machine that is off runs nothing that could be lost.
	operator.Annotate(t, h.Cluster, host, map[string]string{"sim.drydock.dev/power": "off"})
	h.AwaitNode(t, host, "not Ready", func(n *corev1.Node) bool {
		for i := range n.Status.Conditions {
			if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
				return c.Status != corev1.ConditionTrue
			}
		}
		return false
	})
	c.act(t, host, "powerAction", `{"operation":"poweron"}`).want(t, http.StatusNoContent)
}
