package plan

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Plan is what is to be done for a node now, and what is to be said about it.
type Plan struct {
	// Actions in the order in which they are to be done. One about the node that fails
	// ends the list, one about a VM or pod what follows for the same. Where the face takes
	// the node out of maintenance, only what is done for stopped VMs may fail.
	Actions []Action
	// Face is what the node is to show once the actions are done; nil to leave it as
	// it is.
	Face *Face
	// Admit asks for the serialised admission: gather live under the Lease, and call
	// [Admit].
	Admit bool
	// Events are told once the face is written.
	Events []Event
	// VMs and Pods are what is on the node and where it stands.
	VMs  []Fate
	Pods []PodFate
	// Findings are the results of the pre-checks; only after admission.
	Findings []Finding
	// WatchPods is true while the node's pods must be watched.
	WatchPods bool
	// Wake is when time alone changes the plan, after Snapshot.Now; 0 for never.
	Wake time.Duration
	// Waiting is how many VMs wait for a slot of the cluster: the node's own would allow
	// another.
	Waiting int
	// NoTarget are the VMIs on the node that no other node takes now.
	NoTarget []types.UID

	pending bool
}

// Face is what a node shows of its maintenance: condition, status, record and
// request, which always change together. The zero Face is a node out of maintenance.
type Face struct {
	// Phase is the reason of the condition; PhaseNone removes it.
	Phase maintenance.Phase
	// Status is the condition's.
	Status corev1.ConditionStatus
	// Message is one sentence.
	Message string
	// MaintainStatus is the annotation for front-ends; "" removes it.
	MaintainStatus string
	// Record is Drydock's own; nil removes it.
	Record *maintenance.NodeRecord
	// Progress is the report for clients; nil leaves it as it is while there is a
	// record, and removes it with the record.
	Progress *Report
	// RequestID is kept while a request is decided about; "" removes it.
	RequestID string
	// Consume takes the request annotations away.
	Consume bool
}

// Event is an Event on the node, or on a VM.
type Event struct {
	// VM is what the event is about, or VMI where there is no VM; both nil for the node.
	VM  *kubevirtv1.VirtualMachine
	VMI *kubevirtv1.VirtualMachineInstance
	// Once is set where the event stands for something that lasts: it is told once for
	// each object and value, for as long as this process remembers.
	Once string
	// Maintenance is the id of the maintenance that such an event belongs to, "" for none:
	// what was told of an object in an earlier one need not be remembered.
	Maintenance string

	Reason  EventReason
	Message string
	Warning bool
}

// Reasons of events on nodes.
const (
	EventValidating EventReason = "MaintenanceRequested"
	EventRefused    EventReason = "MaintenanceRefused"
	EventDraining   EventReason = "MaintenanceDraining"
	EventEvacuating EventReason = "MaintenanceEvacuating"
	EventCompleted  EventReason = "MaintenanceCompleted"
	EventError      EventReason = "MaintenanceError"
	EventResumed    EventReason = "MaintenanceResumed"
	EventForced     EventReason = "MaintenanceForced"
	EventAgain      EventReason = "MaintenanceRequestIgnored"
	EventCancelled  EventReason = "MaintenanceCancelled"
	EventForeign    EventReason = "MaintenanceNotServed"
	EventDropped    EventReason = "MaintenanceRequestDropped"
	EventCleared    EventReason = "MaintenanceCleared"
	EventLeft       EventReason = "MaintenanceLeft"
	EventArrived    EventReason = "MaintenanceVMArrived"
	EventUncordoned EventReason = "MaintenanceUncordoned"
	EventBadRequest EventReason = "MaintenanceRequestInvalid"
)

// Reasons of events on VMs.
const (
	EventVMStopping  EventReason = "MaintenanceStopping"
	EventVMMigrating EventReason = "MaintenanceMigrating"
	EventVMStarted   EventReason = "MaintenanceStarted"
	EventVMStaysOff  EventReason = "MaintenanceStaysOff"
	EventVMWaiting   EventReason = "MaintenanceStartWaiting"
	EventVMFailed    EventReason = "MaintenanceStartFailed"
	EventVMDeleted   EventReason = "MaintenanceDeleted"
	EventVMUnknown   EventReason = "MaintenanceStrategyUnknown"
	EventVMForeign   EventReason = "MaintenanceMarkerForeign"
)

// TransitionEvent is the event of the transition that a condition shows, for a manager
// that succeeds the one which made it; nil for a condition that is not understood.
func TransitionEvent(c *corev1.NodeCondition) *Event {
	reasons := map[maintenance.Phase]EventReason{
		maintenance.PhaseValidating: EventValidating, maintenance.PhaseDraining: EventDraining,
		maintenance.PhaseEvacuating: EventEvacuating, maintenance.PhaseCompleted: EventCompleted, maintenance.PhaseError: EventError,
	}
	reason, ok := reasons[maintenance.Phase(c.Reason)]
	if !ok {
		return nil
	}
	event := &Event{Reason: reason, Message: c.Message, Warning: reason == EventError}
	if reason == EventError && c.Status == corev1.ConditionFalse {
		event.Reason = EventRefused
	}
	return event
}

func (p *Plan) do(actions ...Action) { p.Actions = append(p.Actions, actions...) }

func (p *Plan) tell(reason EventReason, message string) {
	p.Events = append(p.Events, Event{Reason: reason, Message: message})
}

func (p *Plan) warn(reason EventReason, message string) {
	p.Events = append(p.Events, Event{Reason: reason, Message: message, Warning: true})
}

// warnUnknown tells of strategies that mean nothing.
func (p *Plan) warnUnknown(fates []Fate) {
	for n := range fates {
		if f := &fates[n]; f.invalid {
			p.Events = append(p.Events, Event{VM: f.instance.VM, Reason: EventVMUnknown, Once: strconv.Quote(f.Unknown), Warning: true, Message: fmt.Sprintf(
				"metadata.labels[%s]: unknown maintenance mode strategy %q is taken for %s; valid are %s",
				maintenance.LabelStrategy, f.Unknown, maintenance.StrategyMigrate, maintenance.StrategyNames())})
		}
	}
}

// tellMoves tells each VM that KubeVirt has begun to move. That it has shows only in the
// VMI and its migration: KubeVirt answers an eviction alike whether it marks or refuses.
func (s *situation) tellMoves(p *Plan) {
	for n := range p.VMs {
		i := p.VMs[n].instance
		moving := i.VMI.Status.EvacuationNodeName == s.Name && !s.markedBefore(i)
		if m := i.migration(); m != nil && s.ours(m) {
			moving = true
		}
		if moving && p.VMs[n].Verdict == Move {
			p.Events = append(p.Events, Event{VM: i.VM, VMI: i.VMI, Reason: EventVMMigrating, Once: s.record.ID, Maintenance: s.record.ID, Message: "leaves node " + s.Name + " for maintenance"})
		}
	}
}

// wake keeps the soonest of the moments at which time alone changes something.
func (p *Plan) wake(after time.Duration) {
	after = max(after, time.Millisecond)
	if p.Wake == 0 || after < p.Wake {
		p.Wake = after
	}
}
