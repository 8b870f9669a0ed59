package kubevirt

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/kubevirt/fake"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

func running(uid types.UID) *virtv1.VirtualMachineInstance {
	vmi := &virtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: uid}}
	vmi.Status.Phase, vmi.Status.NodeName = virtv1.Running, "w1"
	return vmi
}

// calls counts what was asked of the API server by a verb, and by a subresource if any.
func calls(client *fake.Clientset, verb, subresource string) int {
	n := 0
	for _, action := range client.Actions() {
		if action.GetVerb() == verb && action.GetSubresource() == subresource {
			n++
		}
	}
	return n
}

// What has become of an instance shows nowhere in its VM, whose version is all that the
// write itself carries.
func TestAVMIsHaltedOnlyAsItWasSeen(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*virtv1.VirtualMachineInstance)
		halts  bool
	}{
		"as it was seen": {change: func(*virtv1.VirtualMachineInstance) {}, halts: true},
		"something that matters little": {change: func(vmi *virtv1.VirtualMachineInstance) {
			vmi.ResourceVersion, vmi.Labels = "7", map[string]string{"a": "b"}
		}, halts: true},
		"another instance":           {change: func(vmi *virtv1.VirtualMachineInstance) { vmi.UID = "new" }},
		"being stopped by its owner": {change: func(vmi *virtv1.VirtualMachineInstance) { vmi.DeletionTimestamp = &metav1.Time{} }},
		"powered off by its guest":   {change: func(vmi *virtv1.VirtualMachineInstance) { vmi.Status.Phase = virtv1.Succeeded }},
		"on another node":            {change: func(vmi *virtv1.VirtualMachineInstance) { vmi.Status.NodeName = "w2" }},
		"marked":                     {change: func(vmi *virtv1.VirtualMachineInstance) { vmi.Status.EvacuationNodeName = "w1" }},
		"being moved": {change: func(vmi *virtv1.VirtualMachineInstance) {
			vmi.Status.MigrationState = &virtv1.VirtualMachineInstanceMigrationState{TargetNode: "w2"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			now, vm := running("u"), &virtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
			test.change(now)
			client := fake.NewSimpleClientset(now, vm)
			err := NewWriter(client.KubevirtV1()).Halt(t.Context(), vm, running("u"), &maintenance.VMRecord{Node: "w1", Restart: maintenance.RestartAfterDisable})
			if halted := calls(client, "patch", "") == 1; halted != test.halts || apierrors.IsConflict(err) == test.halts || test.halts && err != nil {
				t.Errorf("it was halted: %t, want %t; the answer is %v", halted, test.halts, err)
			}
		})
	}
}

// KubeVirt starts a halted VM by making it Always.
func TestAStartIsCalledOnlyForTheStrategyThatWasSeen(t *testing.T) {
	vm := func(strategy virtv1.VirtualMachineRunStrategy, requests ...virtv1.VirtualMachineStateChangeRequest) *virtv1.VirtualMachine {
		vm := &virtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "v"}}
		vm.Spec.RunStrategy, vm.Status.StateChangeRequests = &strategy, requests
		return vm
	}
	for name, test := range map[string]struct {
		now             *virtv1.VirtualMachine
		calls, conflict bool
	}{
		"as it was seen":          {now: vm(virtv1.RunStrategyManual), calls: true},
		"halted meanwhile":        {now: vm(virtv1.RunStrategyHalted), conflict: true},
		"a start is asked for":    {now: vm(virtv1.RunStrategyManual, virtv1.VirtualMachineStateChangeRequest{Action: virtv1.StartRequest})},
		"another VM of that name": {now: func() *virtv1.VirtualMachine { other := vm(virtv1.RunStrategyManual); other.UID = "new"; return other }(), conflict: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewSimpleClientset(test.now)
			err := NewWriter(client.KubevirtV1()).CallStart(t.Context(), vm(virtv1.RunStrategyManual))
			if called := calls(client, "put", "start") == 1; called != test.calls || apierrors.IsConflict(err) != test.conflict || !test.conflict && err != nil {
				t.Errorf("it was started: %t, want %t; the answer is %v", called, test.calls, err)
			}
		})
	}
}
