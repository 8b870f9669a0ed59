package simulator

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
)

const (
	// LeaseInterval is half of kubelet's, because the dev cluster's node controller
	// waits only 20 s for a silent host, so that tests of a power loss are short.
	// With 50 hosts it costs ten small writes a second.
	leaseInterval = 5 * time.Second
	// HeartbeatInterval is virt-handler's; virt-controller calls a host
	// unresponsive after five minutes without.
	heartbeatInterval = time.Minute
)

// Beats remembers when a host last said that it is alive.
type beats struct {
	mu   sync.Mutex
	last map[string]beat
}

type beat struct {
	lease     time.Time
	heartbeat time.Time
}

func (b *beats) get(name string) beat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last[name]
}

func (b *beats) set(name string, value beat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		b.last = map[string]beat{}
	}
	b.last[name] = value
}

func (b *beats) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.last, name)
}

// beat renews one host's Lease and, less often, virt-handler's heartbeat and
// the Ready condition. A host without power simply is not put back.
func (h *hosts) beat(ctx context.Context, name string) (time.Duration, error) {
	current, on := h.registry.powered(name)
	if !on {
		h.beats.forget(name)
		return 0, nil
	}
	last, now := h.beats.get(name), time.Now()
	if wait := leaseInterval - now.Sub(last.lease); wait > 0 {
		return wait, nil
	}
	if err := h.renewLease(ctx, current, now); err != nil {
		return 0, err
	}
	if now.Sub(last.heartbeat) >= heartbeatInterval {
		if err := h.heartbeat(ctx, current, now); err != nil {
			return 0, err
		}
		last.heartbeat = now
	}
	last.lease = now
	h.beats.set(name, last)
	return leaseInterval, nil
}

func (h *hosts) renewLease(ctx context.Context, current host, now time.Time) error {
	leases := h.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	renewed := metav1.NewMicroTime(now)
	patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, renewed.UTC().Format(metav1.RFC3339Micro))
	_, err := leases.Patch(ctx, current.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		seconds := int32(40)
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name: current.name, Namespace: corev1.NamespaceNodeLease,
				// The owner makes the Lease go with its Node.
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: current.name, UID: current.uid}},
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &current.name, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renew the lease of host %q: %w", current.name, err)
	}
	return nil
}

// heartbeat also makes a host schedulable again that virt-controller took for
// dead, as virt-handler does with each beat.
func (h *hosts) heartbeat(ctx context.Context, current host, now time.Time) error {
	handled, err := h.runsHandler(current.name)
	if err != nil {
		return err
	}
	if handled {
		err := h.patchNode(ctx, current.name, map[string]any{
			"uid":         current.uid,
			"labels":      map[string]any{virtv1.NodeSchedulable: wordTrue},
			"annotations": map[string]any{virtv1.VirtHandlerHeartbeat: now.UTC().Format(time.RFC3339)},
		})
		if err != nil {
			return err
		}
	}
	object, exists, err := h.nodes.GetByKey(current.name)
	if err != nil || !exists {
		return err
	}
	return h.patchStatus(ctx, object.(*corev1.Node), func(status *corev1.NodeStatus) {
		for i := range status.Conditions {
			if kubeletOwns(status.Conditions[i].Type) {
				status.Conditions[i].LastHeartbeatTime = metav1.NewTime(now)
			}
		}
	})
}

func kubeletOwns(condition corev1.NodeConditionType) bool {
	switch condition {
	case corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure:
		return true
	default:
		return false
	}
}
