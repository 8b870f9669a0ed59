package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
			p.Events = append(p.Events, strategyUnknown(f))
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
			p.Events = append(p.Events, s.migrating(i))
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
