package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/maintenance"
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

// inventory returns what is known of the node's hardware, nil when nobody manages it.
func (s *server) inventory(ctx context.Context, node string) (*unstructured.Unstructured, error) {
	addon, err := s.Dynamic.Resource(addons).Namespace(seederNamespace).Get(ctx, seederAddon, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("addon %s/%s: %w", seederNamespace, seederAddon, err)
	}
	if enabled, _, _ := unstructured.NestedBool(addon.Object, "spec", "enabled"); !enabled {
		return nil, nil
	}
	hardware, err := s.Dynamic.Resource(inventories).Namespace(seederNamespace).Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inventory %s/%s: %w", seederNamespace, node, err)
	}
	return hardware, nil
}

// controllable returns the inventory of a node whose power can be controlled. Where nobody
// manages it the answer has no body: a front-end does not offer it then, and shows nothing.
func (s *server) controllable(ctx context.Context, node string) (*unstructured.Unstructured, error) {
	hardware, err := s.inventory(ctx, node)
	if err != nil {
		return nil, err
	}
	if hardware == nil {
		return nil, problemf(http.StatusFailedDependency, "")
	}
	if state := text(hardware, inventoryState); state != inventoryReady {
		return nil, problemf(http.StatusConflict, "inventory %s/%s: status.status is %q, power can be controlled when it is %q", seederNamespace, node, state, inventoryReady)
	}
	return hardware, nil
}

func text(object *unstructured.Unstructured, path []string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}

func (s *server) powerActionPossible(ctx context.Context, c *call) (any, error) {
	_, err := s.controllable(ctx, c.node.Name)
	return nil, err
}

// powerAction asks the seeder to switch the machine. It is refused while anything may be
// running on it that the switch would kill.
func (s *server) powerAction(ctx context.Context, c *call) (any, error) {
	operation, err := oneOf(c.body, "operation", "shutdown", "poweron", "reboot")
	if err != nil {
		return nil, err
	}
	hardware, err := s.controllable(ctx, c.node.Name)
	if err != nil {
		return nil, err
	}
	if err := s.switchable(c.node); err != nil {
		return nil, err
	}
	if earlier := text(hardware, powerRequested); earlier != "" && text(hardware, powerOutcome) == "" {
		return nil, problemf(http.StatusConflict, "inventory %s/%s: the earlier power action %q has no outcome yet", seederNamespace, c.node.Name, earlier)
	}
	return nil, s.switchPower(ctx, hardware, operation)
}

// switchable fails while the node is Ready and VMs may run on it: the condition tells what
// is so only while Drydock follows the node.
func (s *server) switchable(node *corev1.Node) error {
	phase, foreign, idle := maintenance.PhaseOf(node), s.foreign(node), s.Idle()
	switch {
	case !maintenance.NodeReady(node):
		return nil
	case foreign != "":
		return problemf(http.StatusConflict, "%s: switch its power there", foreign)
	case phase != maintenance.PhaseCompleted:
		return problemf(http.StatusConflict, "node %s is Ready and %s: its power is switched when maintenance is %s", node.Name, phrase(phase), maintenance.PhaseCompleted)
	case !inMaintenance(node):
		return problemf(http.StatusConflict, "node %s is Ready and leaving maintenance: its power is switched when maintenance is %s", node.Name, maintenance.PhaseCompleted)
	case idle != "":
		return problemf(http.StatusConflict, "node %s is Ready, and nobody has looked what runs on it since maintenance was %s (%s)", node.Name, phase, idle)
	}
	return nil
}

func phrase(phase maintenance.Phase) string {
	if phase == maintenance.PhaseNone {
		return "not in maintenance"
	}
	return "in maintenance phase " + string(phase)
}

// switchPower writes the request, refused if somebody else has written meanwhile. Then the
// job of an earlier action is forgotten, without which the seeder starts no other. Both may
// be written again by whoever asks again after a failure in between.
func (s *server) switchPower(ctx context.Context, hardware *unstructured.Unstructured, operation string) error {
	client := s.Dynamic.Resource(inventories).Namespace(seederNamespace)
	wanted := hardware.DeepCopy()
	if err := unstructured.SetNestedField(wanted.Object, operation, powerRequested...); err != nil {
		return fmt.Errorf("inventory %s/%s: %w", seederNamespace, hardware.GetName(), err)
	}
	if _, err := client.Update(ctx, wanted, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("inventory %s/%s: %w", seederNamespace, hardware.GetName(), err)
	}
	forget, err := json.Marshal(map[string]any{"status": map[string]any{"powerAction": map[string]any{"lastJobName": ""}}})
	if err != nil {
		return fmt.Errorf("inventory %s/%s: %w", seederNamespace, hardware.GetName(), err)
	}
	_, err = client.Patch(ctx, hardware.GetName(), types.MergePatchType, forget, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		// A definition without a status subresource keeps it beside the spec.
		_, err = client.Patch(ctx, hardware.GetName(), types.MergePatchType, forget, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("inventory %s/%s: %w", seederNamespace, hardware.GetName(), err)
	}
	return nil
}
