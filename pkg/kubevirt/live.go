package kubevirt

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	kubevirtclient "kubevirt.io/client-go/kubevirt/typed/core/v1"
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
	// A list, since Drydock may list VMIs and needs no right more for this.
	list, err := l.client.VirtualMachineInstances(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()})
	if err != nil {
		return false, fmt.Errorf("VMI %s/%s: %w", namespace, name, err)
	}
	for i := range list.Items {
		if list.Items[i].UID == uid {
			return true, nil
		}
	}
	l.gone.Add(uid, nil)
	return false, nil
}
