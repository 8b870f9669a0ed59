package maintenance

import (
	"testing"

	"github.com/rancher/wrangler/v3/pkg/generic"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/execute"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// Each change of a VMI without a VM looks for a VM of its name, and finds none. What was
// told of the VMI lasts as long as it does.
func TestAMoveOfABareVMIIsToldOnce(t *testing.T) {
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "bare", UID: "1"}}
	vmis := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	c := &Controller{Memory: execute.NewMemory(), VMIs: generic.NewCache[*kubevirtv1.VirtualMachineInstance](vmis, schema.GroupResource{Group: "kubevirt.io", Resource: "virtualmachineinstances"})}
	c.leading.Store(true)
	if err := vmis.Add(vmi); err != nil {
		t.Fatal(err)
	}
	told := func(vmi *kubevirtv1.VirtualMachineInstance) int {
		t.Helper()
		if _, err := c.onVM("ns/bare", nil); err != nil {
			t.Fatal(err)
		}
		lasting, _ := c.told.split("w1", []plan.Event{{VMI: vmi, Reason: plan.EventVMMigrating, Once: "m"}})
		return len(lasting)
	}
	if first, again := told(vmi), told(vmi); first != 1 || again != 0 {
		t.Errorf("told %d times, then %d times", first, again)
	}
	another := vmi.DeepCopy()
	another.UID = "2"
	if told(another) != 1 {
		t.Error("another VMI of its name is not told of")
	}
	if err := vmis.Delete(vmi); err != nil {
		t.Fatal(err)
	}
	if _, err := c.onVM("ns/bare", nil); err != nil || len(c.told.seen) > 0 {
		t.Errorf("it is gone, and %v is remembered, %v", c.told.seen, err)
	}
}

// A VM may live through any number of maintenances.
func TestOnlyTheLastMaintenanceOfAVMIsRemembered(t *testing.T) {
	var memory told
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1"}}
	lasting := plan.Event{VM: vm, Reason: plan.EventVMUnknown, Once: "foobar"}
	memory.first("", lasting)
	for _, id := range []string{"m1", "m2", "m3"} {
		for _, once := range []string{"moves", "waits"} {
			event := plan.Event{VM: vm, Reason: plan.EventVMWaiting, Once: id + once, Maintenance: id}
			if first, again := memory.first("", event), memory.first("", event); !first || again {
				t.Errorf("%s %s: told %t, then %t", id, once, first, again)
			}
		}
	}
	if memory.first("", lasting) {
		t.Error("what is true of the VM whatever its maintenance is told again")
	}
	if got := len(memory.seen[types.NamespacedName{Namespace: "ns", Name: "a"}]); got != 3 {
		t.Errorf("%d things are remembered, want those of the last maintenance and the label", got)
	}
}
