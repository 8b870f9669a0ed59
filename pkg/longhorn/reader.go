// Package longhorn is what Longhorn looks like from here: which volumes have their
// last healthy replica on a node, and who uses them. It is ring 2: it knows
// Longhorn's API types and ring 0, decides nothing, and imports no other neighbour
// system. It reads caches only, and is made when Longhorn's CRDs exist.
package longhorn

import (
	"fmt"
	"slices"
	"strings"

	longhornv1 "github.com/longhorn/longhorn-manager/k8s/pkg/apis/longhorn/v1beta2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	longhorncontrollers "github.com/drydock-dev/drydock/pkg/generated/controllers/longhorn.io/v1beta2"
	"github.com/drydock-dev/drydock/pkg/plan"
)

const (
	replicaByNode   = "drydock.dev/replica-by-node"
	replicaByVolume = "drydock.dev/replica-by-volume"
	engineByVolume  = "drydock.dev/engine-by-volume"
	volumeByClaim   = "drydock.dev/volume-by-claim"
	volumeByNode    = "drydock.dev/volume-by-node"
)

// Reader answers questions about volumes from caches.
type Reader struct {
	volumes  longhorncontrollers.VolumeCache
	replicas longhorncontrollers.ReplicaCache
	engines  longhorncontrollers.EngineCache
	settings longhorncontrollers.SettingCache
	// attachments have the name of their volume; nil where Longhorn has none.
	attachments longhorncontrollers.VolumeAttachmentCache
}

// NewReader adds the indexes that a Reader needs; it must be called before the caches
// start. attachments tells whether Longhorn has VolumeAttachments, as it does from 1.5 on.
func NewReader(lh longhorncontrollers.Interface, attachments bool) *Reader {
	r := &Reader{
		volumes: lh.Volume().Cache(), replicas: lh.Replica().Cache(), engines: lh.Engine().Cache(), settings: lh.Setting().Cache(),
	}
	if attachments {
		r.attachments = lh.VolumeAttachment().Cache()
	}
	r.replicas.AddIndexer(replicaByNode, func(replica *longhornv1.Replica) ([]string, error) {
		return []string{replica.Spec.NodeID}, nil
	})
	r.replicas.AddIndexer(replicaByVolume, func(replica *longhornv1.Replica) ([]string, error) {
		return []string{replica.Spec.VolumeName}, nil
	})
	r.engines.AddIndexer(engineByVolume, func(engine *longhornv1.Engine) ([]string, error) {
		return []string{engine.Spec.VolumeName}, nil
	})
	r.volumes.AddIndexer(volumeByNode, indexVolumeByNode)
	r.volumes.AddIndexer(volumeByClaim, indexVolumeByClaim)
	return r
}

// Volumes returns the volumes that have a replica on a node, and those behind the
// claims, ordered by name.
func (r *Reader) Volumes(node string, claims []types.NamespacedName) ([]plan.Volume, error) {
	found := map[string]*longhornv1.Volume{}
	if node != "" {
		replicas, err := r.replicas.GetByIndex(replicaByNode, node)
		if err != nil {
			return nil, fmt.Errorf("replicas on node %s: %w", node, err)
		}
		for _, replica := range replicas {
			volume, err := r.volumes.Get(replica.Namespace, replica.Spec.VolumeName)
			switch {
			case err == nil:
				found[volume.Name] = volume
			case !apierrors.IsNotFound(err):
				return nil, fmt.Errorf("volume of replica %s: %w", replica.Name, err)
			}
		}
	}
	for _, claim := range claims {
		volumes, err := r.volumes.GetByIndex(volumeByClaim, claim.String())
		if err != nil {
			return nil, fmt.Errorf("volume of claim %s: %w", claim, err)
		}
		for _, volume := range volumes {
			found[volume.Name] = volume
		}
	}
	list := make([]plan.Volume, 0, len(found))
	for _, volume := range found {
		v, err := r.volume(volume)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b plan.Volume) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (r *Reader) volume(volume *longhornv1.Volume) (plan.Volume, error) {
	claim := claimOf(volume)
	v := plan.Volume{Name: volume.Name, Namespace: claim.Namespace, Claim: claim.Name, Users: usersOf(volume)}
	replicas, err := r.replicas.GetByIndex(replicaByVolume, volume.Name)
	if err != nil {
		return v, fmt.Errorf("replicas of volume %s: %w", volume.Name, err)
	}
	engines, err := r.engines.GetByIndex(engineByVolume, volume.Name)
	if err != nil {
		return v, fmt.Errorf("engines of volume %s: %w", volume.Name, err)
	}
	for _, replica := range replicas {
		if healthy(replica, engines) && !slices.Contains(v.Healthy, replica.Spec.NodeID) {
			v.Healthy = append(v.Healthy, replica.Spec.NodeID)
		}
	}
	return v, nil
}

// healthy tells of a replica what plan says of one, but for the state of its node: once
// healthy, not failed since, not being deleted, and readable and writable where the
// engine knows the replica. A replica that was never attached has no healthyAt.
func healthy(replica *longhornv1.Replica, engines []*longhornv1.Engine) bool {
	if replica.Spec.HealthyAt == "" || replica.Spec.FailedAt != "" || replica.DeletionTimestamp != nil {
		return false
	}
	for _, engine := range engines {
		if mode, known := engine.Status.ReplicaModeMap[replica.Name]; known && mode != longhornv1.ReplicaModeRW {
			return false
		}
	}
	return true
}
