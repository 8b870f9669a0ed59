package simulator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	virtv1 "kubevirt.io/api/core/v1"
)

// A use is who has a volume open, and where.
type use struct {
	pv    *corev1.PersistentVolume
	pods  []*corev1.Pod
	node  string // where the engine runs, empty when nobody has it open
	moves string // where a live migration takes it
}

func (l *longhorn) reconcile(ctx context.Context, name string) (time.Duration, error) {
	volume := cached(l.volumes, name)
	if volume == nil || volume.GetDeletionTimestamp() != nil {
		return 0, nil
	}
	if err := l.createParts(ctx, volume); err != nil {
		return 0, err
	}
	use, err := l.useOf(name)
	if err != nil {
		return 0, err
	}
	_, engineOn := l.registry.powered(use.node)
	facts, err := l.replicaFacts(volume, use.node != "", engineOn)
	if err != nil {
		return 0, err
	}
	for _, fact := range facts {
		if err := l.write(ctx, "replicas", fact.object, fact.spec(name, engineName(name)), fact.status()); err != nil {
			return 0, err
		}
	}
	if engine := cached(l.engines, engineName(name)); engine != nil {
		if err := l.writeEngine(ctx, engine, use, engineOn, facts); err != nil {
			return 0, err
		}
	}
	return 0, l.writeVolume(ctx, volume, use, engineOn, facts)
}

// useOf finds the pods that hold a volume. A launcher whose guest has moved
// away has ended and does not count; while the guest moves, the volume is where
// the VMI is.
func (l *longhorn) useOf(volume string) (use, error) {
	var found use
	pvs, err := l.pvs.GetIndexer().ByIndex(indexPVsByHandle, volume)
	if err != nil || len(pvs) == 0 {
		return found, err
	}
	found.pv = pvs[0].(*corev1.PersistentVolume)
	if found.pv.Spec.ClaimRef == nil {
		return found, nil
	}
	pods, err := l.pods.GetIndexer().ByIndex(indexPodsByClaim, found.pv.Spec.ClaimRef.Namespace+"/"+found.pv.Spec.ClaimRef.Name)
	if err != nil {
		return found, fmt.Errorf("list the pods of volume %s: %w", volume, err)
	}
	for _, object := range pods {
		if pod := object.(*corev1.Pod); pod.Status.StartTime != nil && !podIsTerminal(pod) {
			found.pods = append(found.pods, pod)
		}
	}
	slices.SortFunc(found.pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range found.pods {
		vmi := l.vmiOf(pod)
		switch {
		case vmi == nil:
			if found.node == "" {
				found.node = pod.Spec.NodeName
			}
		case vmi.Status.NodeName == "" || vmi.Status.NodeName == pod.Spec.NodeName:
			found.node = pod.Spec.NodeName
		case migrationRuns(vmi):
			found.moves = pod.Spec.NodeName
		}
	}
	return found, nil
}

// vmiOf finds the VMI of a launcher, or of the attachment pod of a hot-plugged
// disk, which a launcher owns.
func (l *longhorn) vmiOf(pod *corev1.Pod) *virtv1.VirtualMachineInstance {
	owner := metav1.GetControllerOf(pod)
	if owner != nil && owner.Kind == "Pod" {
		object, exists, err := l.pods.GetIndexer().GetByKey(pod.Namespace + "/" + owner.Name)
		if err != nil || !exists {
			return nil
		}
		owner = metav1.GetControllerOf(object.(*corev1.Pod))
	}
	if owner == nil || owner.Kind != virtv1.VirtualMachineInstanceGroupVersionKind.Kind {
		return nil
	}
	object, exists, err := l.vmis.GetIndexer().GetByKey(pod.Namespace + "/" + owner.Name)
	if err != nil || !exists {
		return nil
	}
	return object.(*virtv1.VirtualMachineInstance)
}

func engineName(volume string) string { return volume + "-e-0" }

func (l *longhorn) writeEngine(ctx context.Context, engine *unstructured.Unstructured, use use, on bool, facts []replicaFact) error {
	state, modes := "stopped", map[string]any{}
	switch {
	case use.node != "" && on:
		state = "running"
		for _, fact := range facts {
			if fact.mode != "" {
				modes[fact.object.GetName()] = fact.mode
			}
		}
	case use.node != "":
		// Nobody hears of an engine on a dead host; what was last known stays.
		state = "unknown"
		modes, _, _ = unstructured.NestedMap(engine.Object, "status", "replicaModeMap")
	}
	desired := "stopped"
	if use.node != "" {
		desired = "running"
	}
	return l.write(ctx, "engines", engine,
		map[string]any{"nodeID": use.node, "desireState": desired, "active": true},
		map[string]any{"currentState": state, "ownerID": use.node, "started": state == "running", "replicaModeMap": modes})
}

func (l *longhorn) writeVolume(ctx context.Context, volume *unstructured.Unstructured, use use, on bool, facts []replicaFact) error {
	state := "detached"
	if use.node != "" {
		state = "attached"
	}
	robustness := robustnessOf(volume, use, on, facts)
	owner := use.node
	if owner == "" {
		owner = text(volume, "status", "ownerID")
	}
	if owner == "" && len(facts) > 0 {
		owner = facts[0].node
	}
	status := map[string]any{
		"state": state, "robustness": robustness, "ownerID": owner, "currentNodeID": use.node,
		"currentMigrationNodeID": use.moves, "kubernetesStatus": kubernetesStatus(volume, use),
		"conditions": scheduledCondition(volume),
	}
	if robustness == "degraded" && text(volume, "status", "robustness") != "degraded" {
		status["lastDegradedAt"] = time.Now().UTC().Format(time.RFC3339)
	}
	return l.write(ctx, "volumes", volume, map[string]any{"nodeID": use.node, "migrationNodeID": use.moves}, status)
}

// scheduledCondition: every replica of a scenario has found its disk.
func scheduledCondition(volume *unstructured.Unstructured) []any {
	past, _, _ := unstructured.NestedSlice(volume.Object, "status", "conditions")
	return []any{longhornCondition(past, "Scheduled", "True", "", "")}
}

// robustnessOf counts replicas. Of a volume that nobody has open, or whose engine
// is on a dead host, only a total loss is known.
func robustnessOf(volume *unstructured.Unstructured, use use, on bool, facts []replicaFact) string {
	good, failed := 0, 0
	for _, fact := range facts {
		if fact.mode == modeRW {
			good++
		}
		if fact.failed {
			failed++
		}
	}
	wanted, _, _ := unstructured.NestedInt64(volume.Object, "spec", "numberOfReplicas")
	switch {
	case use.node == "" && len(facts) > 0 && failed == len(facts):
		return "faulted"
	case use.node == "" || !on:
		return "unknown"
	case good == 0:
		return "faulted"
	case int64(good) < max(wanted, int64(len(facts))):
		return "degraded"
	default:
		return "healthy"
	}
}

// kubernetesStatus keeps the last workload as history when nobody uses the
// volume any more, and says since when that is.
func kubernetesStatus(volume *unstructured.Unstructured, use use) map[string]any {
	past, _, _ := unstructured.NestedMap(volume.Object, "status", "kubernetesStatus")
	status := map[string]any{"pvName": "", "pvStatus": "", "namespace": "", "pvcName": "", "lastPVCRefAt": "", "lastPodRefAt": ""}
	if use.pv == nil {
		return status
	}
	status["pvName"], status["pvStatus"] = use.pv.Name, string(use.pv.Status.Phase)
	if claim := use.pv.Spec.ClaimRef; claim != nil {
		status["namespace"], status["pvcName"] = claim.Namespace, claim.Name
	}
	if len(use.pods) == 0 {
		workloads, _ := past["workloadsStatus"].([]any)
		if len(workloads) == 0 {
			return status
		}
		status["workloadsStatus"], status["lastPodRefAt"] = workloads, past["lastPodRefAt"]
		if isEmpty(past["lastPodRefAt"]) {
			status["lastPodRefAt"] = time.Now().UTC().Format(time.RFC3339)
		}
		return status
	}
	var workloads []any
	for _, pod := range use.pods {
		workload := map[string]any{"podName": pod.Name, "podStatus": string(pod.Status.Phase), "workloadName": "", "workloadType": ""}
		if len(pod.OwnerReferences) > 0 {
			workload["workloadName"], workload["workloadType"] = pod.OwnerReferences[0].Name, pod.OwnerReferences[0].Kind
		}
		workloads = append(workloads, workload)
	}
	status["workloadsStatus"] = workloads
	return status
}
