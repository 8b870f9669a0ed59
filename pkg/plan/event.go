package plan

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// EventReason is the reason of an Event.
type EventReason string

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

// Stopping tells the owner of a VM that it was stopped, and when it comes back.
func Stopping(a Halt) Event {
	back := map[maintenance.RestartPoint]string{
		maintenance.RestartAfterEnable:  "it is started on another node once this one is empty",
		maintenance.RestartAfterDisable: "it is started when the node leaves maintenance",
		maintenance.RestartNever:        "it stays off until somebody starts it",
	}[a.Record.Restart]
	how := "stopped"
	if a.Record.Source == maintenance.SourceForce {
		how += " by force"
	}
	return Event{VM: a.VM, Reason: EventVMStopping, Message: fmt.Sprintf("%s for maintenance of node %s; %s", how, a.Record.Node, back)}
}

// Deleted tells of a VMI that nobody makes anew.
func Deleted(a DeleteVMI) Event {
	return Event{VMI: a.VMI, Reason: EventVMDeleted, Warning: true, Message: fmt.Sprintf(
		"deleted by forced maintenance of node %s: it belongs to no VM and cannot be moved", a.VMI.Status.NodeName)}
}

// StartWaits tells of a VM that is to run again and does not yet.
func StartWaits(v *StoppedVM, why string) Event {
	return Event{VM: v.VM, Reason: EventVMWaiting, Once: v.Record.ID + why, Maintenance: v.Record.ID, Message: "is not started yet: " + why}
}

// StartFailed tells of a start that was refused.
func StartFailed(a Start, err error) Event {
	return Event{VM: a.VM, Reason: EventVMFailed, Warning: true, Message: fmt.Sprintf(
		"could not be started after maintenance of node %s, which is tried again: %v", a.Record.Node, err)}
}

func strategyUnknown(f *Fate) Event {
	return Event{VM: f.instance.VM, Reason: EventVMUnknown, Once: strconv.Quote(f.Unknown), Warning: true, Message: fmt.Sprintf(
		"metadata.labels[%s]: unknown maintenance mode strategy %q is taken for %s; valid are %s",
		maintenance.LabelStrategy, f.Unknown, maintenance.StrategyMigrate, maintenance.StrategyNames())}
}

func (s *situation) migrating(i *Instance) Event {
	return Event{VM: i.VM, VMI: i.VMI, Reason: EventVMMigrating, Once: s.record.ID, Maintenance: s.record.ID, Message: "leaves node " + s.Name + " for maintenance"}
}

func requestInvalid(problem string) Event {
	return Event{Reason: EventBadRequest, Message: problem, Once: problem, Warning: true}
}

// notServed tells of a request that Drydock saw too late to make it its own.
func notServed(node *corev1.Node) Event {
	return Event{Reason: EventForeign, Once: string(node.UID), Warning: true, Message: "this request is served by Harvester's own controllers: " +
		"Drydock's webhook, which renames requests, was not there when it was made"}
}
