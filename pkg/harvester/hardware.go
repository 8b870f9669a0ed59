package harvester

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// What Harvester's add-on for hardware, the seeder, keeps of each node. Its kinds are read
// without types: it may be absent, and of any version.
var (
	addons      = schema.GroupVersionResource{Group: "harvesterhci.io", Version: "v1beta1", Resource: "addons"}
	inventories = schema.GroupVersionResource{Group: "metal.harvesterhci.io", Version: "v1alpha1", Resource: "inventories"}
)

const (
	seederNamespace = "harvester-system"
	seederAddon     = "harvester-seeder"
	inventoryReady  = "inventoryNodeReady"
)

// Fields of an inventory.
var (
	powerRequested = []string{"spec", "powerActionRequested"}
	powerOutcome   = []string{"status", "powerAction", "actionStatus"}
	inventoryState = []string{"status", "status"}
)

// Hardware switches machines through the seeder. It reads what it needs when it is asked:
// that is seldom, and mostly nothing is there.
type Hardware struct{ client dynamic.Interface }

// NewHardware returns a Hardware.
func NewHardware(client dynamic.Interface) *Hardware { return &Hardware{client: client} }

// Power reports whether somebody manages the node's hardware, and what keeps its power from
// being controlled, "" for nothing.
func (h *Hardware) Power(ctx context.Context, node string) (managed bool, refusal string, err error) {
	inventory, err := h.inventory(ctx, node)
	if err != nil || inventory == nil {
		return false, "", err
	}
	return true, uncontrollable(inventory), nil
}

// Switch asks for an operation, or says why that cannot be done now. The request is refused
// if somebody else has written meanwhile.
func (h *Hardware) Switch(ctx context.Context, node, operation string) (refusal string, err error) {
	inventory, err := h.inventory(ctx, node)
	if err != nil {
		return "", err
	}
	if inventory == nil {
		return fmt.Sprintf("inventory %s/%s: is gone", seederNamespace, node), nil
	}
	if refusal := uncontrollable(inventory); refusal != "" {
		return refusal, nil
	}
	if earlier := text(inventory, powerRequested); earlier != "" && text(inventory, powerOutcome) == "" {
		return fmt.Sprintf("inventory %s/%s: the earlier power action %q has no outcome yet", seederNamespace, node, earlier), nil
	}
	if err := h.request(ctx, inventory, operation); err != nil {
		return "", fmt.Errorf("inventory %s/%s: %w", seederNamespace, node, err)
	}
	return "", nil
}

// inventory returns what is known of the node's hardware, nil when nobody manages it.
func (h *Hardware) inventory(ctx context.Context, node string) (*unstructured.Unstructured, error) {
	addon, err := h.client.Resource(addons).Namespace(seederNamespace).Get(ctx, seederAddon, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("addon %s/%s: %w", seederNamespace, seederAddon, err)
	}
	if enabled, _, _ := unstructured.NestedBool(addon.Object, "spec", "enabled"); !enabled {
		return nil, nil
	}
	inventory, err := h.client.Resource(inventories).Namespace(seederNamespace).Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inventory %s/%s: %w", seederNamespace, node, err)
	}
	return inventory, nil
}

func uncontrollable(inventory *unstructured.Unstructured) string {
	state := text(inventory, inventoryState)
	if state == inventoryReady {
		return ""
	}
	return fmt.Sprintf("inventory %s/%s: status.status is %q, power can be controlled when it is %q", seederNamespace, inventory.GetName(), state, inventoryReady)
}

func text(object *unstructured.Unstructured, path []string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}

// request writes the request. Then the job of an earlier action is forgotten, without which
// the seeder starts no other. Both may be written again by whoever asks again after a
// failure in between.
func (h *Hardware) request(ctx context.Context, inventory *unstructured.Unstructured, operation string) error {
	client := h.client.Resource(inventories).Namespace(seederNamespace)
	wanted := inventory.DeepCopy()
	if err := unstructured.SetNestedField(wanted.Object, operation, powerRequested...); err != nil {
		return err
	}
	if _, err := client.Update(ctx, wanted, metav1.UpdateOptions{}); err != nil {
		return err
	}
	forget, err := json.Marshal(map[string]any{"status": map[string]any{"powerAction": map[string]any{"lastJobName": ""}}})
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, inventory.GetName(), types.MergePatchType, forget, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		// A definition without a status subresource keeps it beside the spec.
		_, err = client.Patch(ctx, inventory.GetName(), types.MergePatchType, forget, metav1.PatchOptions{})
	}
	return err
}
