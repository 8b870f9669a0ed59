package simulator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

// How an engine sees a replica: read-write, write-only while it is rebuilt, in
// error; empty when it does not see it at all.
const (
	modeRW  = "RW"
	modeWO  = "WO"
	modeERR = "ERR"
)

const (
	replicaHealthy    = "healthy"
	replicaRebuilding = "rebuilding"
	replicaFailed     = "failed"
	replicaStopped    = "stopped"
)

// A replicaFact is what is true of one replica at this moment.
type replicaFact struct {
	object  *unstructured.Unstructured
	node    string
	mode    string
	failed  bool
	healthy bool // its data were complete at some time
	state   string
}

// createParts makes the engine and, where the scenario lists nodes, the
// replicas of a volume.
func (l *longhorn) createParts(ctx context.Context, volume *unstructured.Unstructured) error {
	name := volume.GetName()
	if cached(l.engines, engineName(name)) == nil {
		if err := l.createPart(ctx, "engines", "Engine", engineName(name), volume, ""); err != nil {
			return err
		}
	}
	for node := range strings.SplitSeq(volume.GetAnnotations()[annotationReplicas], ",") {
		if node = strings.TrimSpace(node); node == "" || l.hasReplicaOn(name, node) {
			continue
		}
		replica := name + "-r-" + digest(name + "/" + node)[:8]
		if err := l.createPart(ctx, "replicas", "Replica", replica, volume, node); err != nil {
			return err
		}
	}
	return nil
}

func (l *longhorn) hasReplicaOn(volume, node string) bool {
	replicas, err := l.replicasOf(volume)
	return err == nil && slices.ContainsFunc(replicas, func(replica *unstructured.Unstructured) bool {
		return text(replica, "spec", "nodeID") == node
	})
}

func (l *longhorn) replicasOf(volume string) ([]*unstructured.Unstructured, error) {
	objects, err := l.replicas.GetIndexer().ByIndex(indexReplicasByVolume, volume)
	if err != nil {
		return nil, fmt.Errorf("list the replicas of volume %s: %w", volume, err)
	}
	var replicas []*unstructured.Unstructured
	for _, object := range objects {
		replicas = append(replicas, object.(*unstructured.Unstructured))
	}
	slices.SortFunc(replicas, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return replicas, nil
}

func (l *longhorn) createPart(ctx context.Context, resource, kind, name string, volume *unstructured.Unstructured, node string) error {
	labels := map[string]any{"longhornvolume": volume.GetName()}
	if node != "" && len(validation.IsValidLabelValue(node)) == 0 {
		labels["longhornnode"] = node
	}
	size := text(volume, "spec", "size")
	if size == "" {
		size = "0"
	}
	part := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "longhorn.io/v1beta2", "kind": kind,
		"metadata": map[string]any{"namespace": longhornNamespace, "name": name, "labels": labels},
		"spec": map[string]any{
			"volumeName": volume.GetName(), "volumeSize": size, "nodeID": node, "active": true,
			"dataEngine": "v1", "snapshotMaxSize": "0",
		},
	}}
	part.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "longhorn.io/v1beta2", Kind: "Volume", Name: volume.GetName(), UID: volume.GetUID(),
	}})
	_, err := l.client.Resource(longhornResource(resource)).Namespace(longhornNamespace).Create(ctx, part, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s %s: %w", kind, name, err)
	}
	return nil
}

// replicaFacts judges each replica: what the scenario says about it, whether
// its host has power, and whether an engine is there to see it.
func (l *longhorn) replicaFacts(volume *unstructured.Unstructured, attached, engineOn bool) ([]replicaFact, error) {
	replicas, err := l.replicasOf(volume.GetName())
	if err != nil {
		return nil, err
	}
	var facts []replicaFact
	for _, replica := range replicas {
		behaviour := settings{annotations: replica.GetAnnotations()}
		wanted := behaviour.oneOf(annotationReplicaState, replicaHealthy, replicaRebuilding, replicaFailed, replicaStopped)
		l.complaints.about(replica, replica.GetUID(), replica.GetName(), behaviour.bad)
		fact := replicaFact{object: replica, node: text(replica, "spec", "nodeID")}
		_, on := l.registry.powered(fact.node)
		fact.judge(wanted, attached && engineOn, on)
		facts = append(facts, fact)
	}
	return facts, nil
}

func (f *replicaFact) judge(wanted string, engineRuns, on bool) {
	wasFailed := text(f.object, "spec", "failedAt") != ""
	f.state = "stopped"
	switch {
	case wanted == replicaFailed:
		f.failed, f.healthy = true, true
		if engineRuns {
			f.mode = modeERR
		}
	case !on:
		// Only a running engine finds out that a replica does not answer.
		f.healthy, f.failed, f.state = true, engineRuns || wasFailed, "unknown"
		if engineRuns {
			f.mode = modeERR
		}
	case wanted == replicaRebuilding:
		if engineRuns {
			f.mode, f.state = modeWO, "running"
		}
	case wanted == replicaStopped:
		f.healthy = true
	default:
		f.healthy = true
		// A replica that failed comes back by being rebuilt, for which an engine
		// has to run; the rebuild itself takes no time here.
		f.failed = wasFailed && !engineRuns && wanted == ""
		if engineRuns {
			f.mode, f.state = modeRW, "running"
		}
	}
}

func (f *replicaFact) spec(volume, engine string) map[string]any {
	now := time.Now().UTC().Format(time.RFC3339)
	spec := map[string]any{"volumeName": volume, "engineName": engine, "active": true, "healthyAt": "", "failedAt": ""}
	spec["desireState"] = "stopped"
	if f.state == "running" {
		spec["desireState"] = "running"
	}
	if f.healthy {
		spec["healthyAt"] = firstOf(text(f.object, "spec", "healthyAt"), now)
	}
	if f.failed {
		spec["failedAt"] = firstOf(text(f.object, "spec", "failedAt"), now)
		spec["lastFailedAt"] = spec["failedAt"]
	}
	if f.mode == modeRW {
		spec["lastHealthyAt"] = firstOf(text(f.object, "spec", "lastHealthyAt"), now)
	}
	return spec
}

func (f *replicaFact) status() map[string]any {
	return map[string]any{"currentState": f.state, "started": f.state == "running", "ownerID": f.node}
}

func firstOf(texts ...string) string {
	for _, candidate := range texts {
		if candidate != "" {
			return candidate
		}
	}
	return ""
}
