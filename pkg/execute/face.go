package execute

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// progressEvery is how long a new message waits for more to happen before it is
// written: one VM that has left and the next one that goes bring several changes
// within a second, which are told in one write.
const progressEvery = time.Second

// facePatch returns the one patch of nodes/status that turns what the node shows into
// the face; nil when it shows it already. onlyMessage tells a progress report from a
// transition.
//
// It is a strategic merge patch because conditions are a list merged by type, and
// carries the resourceVersion, so that a decision on a stale node is refused. The
// status subresource takes metadata along but silently drops spec.
func facePatch(node *corev1.Node, face *plan.Face, now time.Time) (patch []byte, onlyMessage bool, err error) {
	annotations := map[string]any{}
	set := func(key, value string) {
		current, present := node.Annotations[key]
		switch {
		case value == "" && present:
			annotations[key] = nil
		case value != "" && current != value:
			annotations[key] = value
		}
	}
	set(maintenance.AnnotationStatus, face.MaintainStatus)
	record := ""
	if face.Record != nil {
		record = face.Record.Encode()
	}
	set(maintenance.AnnotationNodeRecord, record)
	set(maintenance.AnnotationRequestID, face.RequestID)
	if face.Consume {
		for _, key := range maintenance.RequestAnnotations {
			set(key, "")
		}
	}
	onlyMessage = len(annotations) == 0
	if face.Progress != nil || face.Record == nil {
		progress, err := encodeProgress(face.Progress)
		if err != nil {
			return nil, false, fmt.Errorf("progress of node %s: %w", node.Name, err)
		}
		set(maintenance.AnnotationProgress, progress)
	}
	body := map[string]any{}
	metadata := map[string]any{"resourceVersion": node.ResourceVersion}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	body["metadata"] = metadata
	condition, transition := conditionPatch(maintenance.Condition(node), face, now)
	if condition != nil {
		body["status"] = map[string]any{"conditions": []any{condition}}
	}
	if condition == nil && len(annotations) == 0 {
		return nil, false, nil
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, false, fmt.Errorf("patch of node %s: %w", node.Name, err)
	}
	return raw, onlyMessage && !transition, nil
}

func encodeProgress(report *plan.Report) (string, error) {
	if report == nil {
		return "", nil
	}
	raw, err := json.Marshal(report)
	return string(raw), err
}

// conditionPatch returns the element for the list of conditions, nil when nothing
// changes. The transition time changes with phase and status, not with the message.
func conditionPatch(current *corev1.NodeCondition, face *plan.Face, now time.Time) (element any, transition bool) {
	if face.Phase == maintenance.PhaseNone {
		if current == nil {
			return nil, false
		}
		return map[string]any{"$patch": "delete", "type": maintenance.ConditionType}, true
	}
	wanted := corev1.NodeCondition{
		Type: maintenance.ConditionType, Status: face.Status, Reason: string(face.Phase), Message: face.Message,
		LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
	if current == nil {
		return wanted, true
	}
	if current.Status == wanted.Status && current.Reason == wanted.Reason {
		if current.Message == wanted.Message {
			return nil, false
		}
		wanted.LastTransitionTime = current.LastTransitionTime
		return wanted, false
	}
	return wanted, true
}

// show writes the face. It returns how long to wait when a progress report is not due
// yet; the report is then not written. What an event tells is written at once: the plan
// sees from the message that it was told.
func (e *Executor) show(ctx context.Context, node *corev1.Node, face *plan.Face, telling bool, now time.Time) (wait time.Duration, err error) {
	patch, onlyMessage, err := facePatch(node, face, now)
	if err != nil {
		return 0, err
	}
	if patch == nil {
		e.memory.told(node.Name)
		return 0, nil
	}
	if onlyMessage && !telling && maintenance.Condition(node) != nil {
		if wait := progressEvery - now.Sub(e.memory.untold(node.Name, now)); wait > 0 {
			return wait, nil
		}
	}
	e.memory.told(node.Name)
	if _, err := e.nodes.Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return 0, fmt.Errorf("node %s: %w", node.Name, err)
	}
	return 0, nil
}

// showFailures says on an engaged node why its maintenance cannot go on; all else that it
// shows stays. A conflict is no reason: the next pass knows better.
func (e *Executor) showFailures(ctx context.Context, node *corev1.Node, failures []error) (wait time.Duration, err error) {
	record, err := maintenance.NodeRecordOf(node)
	shown := maintenance.Condition(node)
	if err != nil || record == nil || shown == nil || ctx.Err() != nil {
		return 0, err
	}
	face := &plan.Face{
		Phase: maintenance.Phase(shown.Reason), Status: shown.Status, Message: "cannot go on",
		MaintainStatus: node.Annotations[maintenance.AnnotationStatus], Record: record, RequestID: node.Annotations[maintenance.AnnotationRequestID],
	}
	told := withFailures(face, failures)
	if told.Message == face.Message {
		return 0, nil
	}
	return e.show(ctx, node, told, false, e.clock.Now())
}
