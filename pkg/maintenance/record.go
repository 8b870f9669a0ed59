package maintenance

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// HaltCause says why a drain was given up while the node stays engaged.
type HaltCause string

const (
	// HaltDrainLimit surfaces when the drain took longer than --drain-timeout.
	HaltDrainLimit HaltCause = "DrainLimit"
	// HaltUncordoned surfaces when somebody uncordoned the node during the drain.
	HaltUncordoned HaltCause = "Uncordoned"
)

// NodeRecord is what Drydock must know about a maintenance and could not observe
// again after a crash. It lives in one node annotation, and is written together
// with condition and status so that a crash never shows half a transition.
type NodeRecord struct {
	// ID names this maintenance; markers on VMs refer to it, so that a later
	// maintenance of the same node never claims them.
	ID string `json:"id"`
	// RequestedBy names who asked, "" when that is not known.
	RequestedBy string `json:"requestedBy,omitempty"`
	// Forced is true once force was asked for.
	Forced bool `json:"forced,omitempty"`
	// Started is when the drain began, or was resumed; the drain limit counts from it.
	Started metav1.Time `json:"started"`
	// CordonedBefore is true when the node was cordoned before the maintenance: it is
	// then still cordoned after it.
	CordonedBefore bool `json:"cordonedBefore,omitempty"`
	// Cordoned is set in the same write as the cordon. A schedulable draining node
	// without it is not cordoned yet; with it, a human uncordoned.
	Cordoned bool `json:"cordoned,omitempty"`
	// Halted says why the drain was given up, if it was.
	Halted HaltCause `json:"halted,omitempty"`
	// VMs is how many VMs were on the node when the drain began, for "4 of 7 left".
	VMs int `json:"vms,omitempty"`
	// MarkedBefore lists the VMIs that somebody else had marked for evacuation from
	// this node before the drain. Leaving does not withdraw those.
	MarkedBefore []types.UID `json:"markedBefore,omitempty"`
	// Unmovable lists the VMIs that could not be moved when the request was admitted. One
	// that cannot since then is waited for.
	Unmovable []types.UID `json:"unmovable,omitempty"`
}

// NodeRecordOf reads the node's record; nil without an error when there is none.
func NodeRecordOf(node *corev1.Node) (*NodeRecord, error) {
	raw, ok := node.Annotations[AnnotationNodeRecord]
	if !ok {
		return nil, nil
	}
	record := &NodeRecord{}
	if err := decodeRecord(raw, record); err != nil {
		return nil, fmt.Errorf("metadata.annotations[%s] of node %s: %w", AnnotationNodeRecord, node.Name, err)
	}
	if record.ID == "" {
		return nil, fmt.Errorf("metadata.annotations[%s] of node %s: field id is empty", AnnotationNodeRecord, node.Name)
	}
	return record, nil
}

// Encode returns the annotation value.
func (r *NodeRecord) Encode() string { return encodeRecord(r) }

// Elapsed is how long the drain has run.
func (r *NodeRecord) Elapsed(now time.Time) time.Duration { return now.Sub(r.Started.Time) }

// RestartPoint says when Drydock starts a VM that it stopped.
type RestartPoint string

const (
	// RestartAfterEnable: once the node is empty, on another node.
	RestartAfterEnable RestartPoint = "AfterEnable"
	// RestartAfterDisable: on leaving.
	RestartAfterDisable RestartPoint = "AfterDisable"
	// RestartNever: its owner does. Kept only so that reports can name the VM.
	RestartNever RestartPoint = "Never"
)

// StopSource says what a stop rests on.
type StopSource string

const (
	// SourceLabel: the strategy label. A later change of the label is obeyed.
	SourceLabel StopSource = "Label"
	// SourceEvictionStrategy: the owner's template consents to an interruption.
	SourceEvictionStrategy StopSource = "EvictionStrategy"
	// SourceForce: force overrode what the owner chose.
	SourceForce StopSource = "Force"
)

// VMRecord is what Drydock must know about a VM that it stopped.
type VMRecord struct {
	// ID is the maintenance's id.
	ID string `json:"id"`
	// VM is the UID of the VM that was stopped: a clone, or what is restored from a
	// snapshot, comes with the annotations of the VM that it was made from.
	VM types.UID `json:"vm,omitempty"`
	// Node and NodeUID are the node that the VM was stopped on: a new node of the
	// same name inherits nothing.
	Node    string    `json:"node"`
	NodeUID types.UID `json:"nodeUID"`
	// Restart says when the VM is started again.
	Restart RestartPoint `json:"restart"`
	// Source says what the stop rests on.
	Source StopSource `json:"source"`
	// RunStrategy is the run strategy that the VM had.
	RunStrategy string `json:"runStrategy"`
	// Stopped is the UID of the VMI that was stopped: the VM is back when another
	// one exists.
	Stopped types.UID `json:"stopped,omitempty"`
	// NodeSelector is what the VM's instancetype asks of a node: once the VMI is gone, it
	// stands nowhere that is read here.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Paused is true when the guest was paused: started again, it is not.
	Paused bool `json:"paused,omitempty"`
	// Starting is set in the write that restores the run strategy.
	Starting bool `json:"starting,omitempty"`
}

// VMRecordOf reads a VirtualMachine's record; nil without an error when there is none, or
// only one that tells of another VM.
func VMRecordOf(vm metav1.Object) (*VMRecord, error) {
	raw, ok := vm.GetAnnotations()[AnnotationVMRecord]
	if !ok {
		return nil, nil
	}
	record := &VMRecord{}
	if err := decodeRecord(raw, record); err != nil {
		return nil, fmt.Errorf("metadata.annotations[%s]: %w", AnnotationVMRecord, err)
	}
	if record.VM != "" && record.VM != vm.GetUID() {
		return nil, nil
	}
	return record, nil
}

// Encode returns the annotation value.
func (r *VMRecord) Encode() string { return encodeRecord(r) }

func decodeRecord(raw string, into any) error {
	if err := json.Unmarshal([]byte(raw), into); err != nil {
		return fmt.Errorf("not a record: %w", err)
	}
	return nil
}

// encodeRecord cannot fail: records hold only strings, booleans and times.
func encodeRecord(record any) string {
	raw, err := json.Marshal(record)
	if err != nil {
		return ""
	}
	return string(raw)
}
