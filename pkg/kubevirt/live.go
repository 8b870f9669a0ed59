package kubevirt

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kubevirtclient "kubevirt.io/client-go/kubevirt/typed/core/v1"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// Live asks the API server itself, where a cache may be behind.
type Live struct {
	client kubevirtclient.KubevirtV1Interface
	// gone are UIDs of VMIs that do not exist any more: none of them ever will.
	gone *lru.Cache
}

// remembered is how many VMIs are known to be gone: more than there are launchers that
// outlive theirs.
const remembered = 1024

// NewLive returns a Live on KubeVirt's typed client.
func NewLive(client kubevirtclient.KubevirtV1Interface) *Live {
	return &Live{client: client, gone: lru.New(remembered)}
}

// Exists reports whether that VMI is there, and not another one of its name.
func (l *Live) Exists(ctx context.Context, namespace, name string, uid types.UID) (bool, error) {
	if _, known := l.gone.Get(uid); known {
		return false, nil
	}
	vmi, err := liveVMI(ctx, l.client, namespace, name, uid)
	if err != nil {
		return false, err
	}
	if vmi == nil {
		l.gone.Add(uid, nil)
	}
	return vmi != nil, nil
}

// named lists one object: Drydock may list VMs and VMIs, and needs no right more for this.
func named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}

// liveVMI returns a VMI as it is now, nil when it is gone.
func liveVMI(ctx context.Context, client kubevirtclient.KubevirtV1Interface, namespace, name string, uid types.UID) (*kubevirtv1.VirtualMachineInstance, error) {
	list, err := client.VirtualMachineInstances(namespace).List(ctx, named(name))
	if err != nil {
		return nil, fmt.Errorf("VMI %s/%s: %w", namespace, name, err)
	}
	for i := range list.Items {
		if list.Items[i].UID == uid {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// liveVM returns a VM as it is now, nil when it is gone.
func liveVM(ctx context.Context, client kubevirtclient.KubevirtV1Interface, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachine, error) {
	list, err := client.VirtualMachines(vm.Namespace).List(ctx, named(vm.Name))
	if err != nil {
		return nil, fmt.Errorf("VM %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	for i := range list.Items {
		if list.Items[i].UID == vm.UID {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// standing is what a stop rests on of a VMI.
type standing struct {
	node, evacuating         string
	leaving, ended, migrates bool
}

func standingOf(vmi *kubevirtv1.VirtualMachineInstance) standing {
	return standing{vmi.Status.NodeName, vmi.Status.EvacuationNodeName, vmi.DeletionTimestamp != nil, vmi.IsFinal(), plan.Migrates(vmi)}
}

// changed is the API server's answer to a write that rests on an old version.
func changed(resource string, object metav1.Object) error {
	conflict := apierrors.NewConflict(kubevirtv1.Resource(resource), object.GetName(), errors.New("it has changed since it was decided about"))
	return fmt.Errorf("%s/%s: %w", object.GetNamespace(), object.GetName(), conflict)
}
