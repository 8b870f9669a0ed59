package harvester

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

func object(what schema.GroupVersionResource, kind, name string, spec, status map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec, "status": status}}
	o.SetGroupVersionKind(what.GroupVersion().WithKind(kind))
	o.SetNamespace(seederNamespace)
	o.SetName(name)
	return o
}

func enabled(is bool) *unstructured.Unstructured {
	return object(addons, "Addon", seederAddon, map[string]any{"enabled": is}, nil)
}

func inventory(state, requested, outcome string) *unstructured.Unstructured {
	return object(inventories, "Inventory", "w1", map[string]any{"powerActionRequested": requested},
		map[string]any{"status": state, "powerAction": map[string]any{"actionStatus": outcome, "lastJobName": "earlier"}})
}

func hardware(objects ...runtime.Object) (*Hardware, *fake.FakeDynamicClient) {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{addons: "AddonList"})
	for _, o := range objects {
		resource := addons
		if o.GetObjectKind().GroupVersionKind().Kind == "Inventory" {
			resource = inventories
		}
		if err := client.Tracker().Create(resource, o, seederNamespace); err != nil {
			panic(err)
		}
	}
	return NewHardware(client), client
}

func TestPowerIsControlledWhereTheSeederManagesIt(t *testing.T) {
	for name, test := range map[string]struct {
		objects []runtime.Object
		managed bool
		// power and switching are parts of what refuses them, "" for nothing.
		power, switching string
	}{
		"no add-on":            {nil, false, "", "is gone"},
		"the add-on is off":    {[]runtime.Object{enabled(false), inventory(inventoryReady, "", "")}, false, "", "is gone"},
		"no inventory":         {[]runtime.Object{enabled(true)}, false, "", "is gone"},
		"not ready":            {[]runtime.Object{enabled(true), inventory("inventoryPending", "", "")}, true, `status.status is "inventoryPending"`, `status.status is "inventoryPending"`},
		"an earlier action":    {[]runtime.Object{enabled(true), inventory(inventoryReady, "shutdown", "")}, true, "", `"shutdown" has no outcome yet`},
		"an action that ended": {[]runtime.Object{enabled(true), inventory(inventoryReady, "shutdown", "actionComplete")}, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, client := hardware(test.objects...)
			managed, refusal, err := h.Power(t.Context(), "w1")
			if err != nil || managed != test.managed || !strings.Contains(refusal, test.power) || (refusal == "") != (test.power == "") {
				t.Errorf("managed: %t, refused: %q, %v", managed, refusal, err)
			}
			refusal, err = h.Switch(t.Context(), "w1", "poweron")
			if err != nil || !strings.Contains(refusal, test.switching) || (refusal == "") != (test.switching == "") {
				t.Errorf("switching is refused: %q, %v", refusal, err)
			}
			written := slices.ContainsFunc(client.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() != "get" })
			if written != (test.switching == "") {
				t.Errorf("written: %t", written)
			}
		})
	}
}

// The seeder keeps its status in a subresource or, in some versions, beside the spec.
func TestASwitchForgetsTheJobOfAnEarlierOne(t *testing.T) {
	for name, refused := range map[string]error{"in a subresource": nil, "beside the spec": apierrors.NewNotFound(inventories.GroupResource(), "w1")} {
		t.Run(name, func(t *testing.T) {
			h, client := hardware(enabled(true), inventory(inventoryReady, "", ""))
			client.PrependReactor("patch", "inventories", func(a clienttesting.Action) (bool, runtime.Object, error) {
				return a.GetSubresource() != "" && refused != nil, nil, refused
			})
			if refusal, err := h.Switch(t.Context(), "w1", "reboot"); refusal != "" || err != nil {
				t.Fatalf("refused: %q, %v", refusal, err)
			}
			got, err := client.Resource(inventories).Namespace(seederNamespace).Get(t.Context(), "w1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if requested, job := text(got, powerRequested), text(got, []string{"status", "powerAction", "lastJobName"}); requested != "reboot" || job != "" {
				t.Errorf("asked for %q, the last job is %q", requested, job)
			}
		})
	}
}

func TestWhatCannotBeReadIsNoRefusal(t *testing.T) {
	for _, resource := range []string{"addons", "inventories"} {
		h, client := hardware(enabled(true), inventory(inventoryReady, "", ""))
		broken := errors.New("broken")
		client.PrependReactor("get", resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, broken })
		if _, _, err := h.Power(t.Context(), "w1"); !errors.Is(err, broken) || !strings.Contains(err.Error(), seederNamespace+"/") {
			t.Errorf("%s: %v", resource, err)
		}
		if _, err := h.Switch(t.Context(), "w1", "reboot"); !errors.Is(err, broken) {
			t.Errorf("%s: %v", resource, err)
		}
	}
}
