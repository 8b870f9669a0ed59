package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// outside handles a node that is not in maintenance.
func (s *situation) outside(p *Plan) {
	validating := maintenance.PhaseOf(s.Node) == maintenance.PhaseValidating
	_, known := s.Node.Annotations[maintenance.AnnotationRequestID]
	switch {
	case s.request.Wanted && validating && known:
		p.Admit = true
	case s.request.Wanted:
		asked := "maintenance was requested" + byWord(s.request.By)
		p.Face = validatingFace(s.ID, asked+"; the pre-checks are running")
		p.tell(EventValidating, asked+forcedWord(s.forced))
	case validating:
		// Force belongs to the request: left behind, it would force the next one.
		p.Face = &Face{Consume: true}
		p.tell(EventCancelled, "the request was taken back before anything was changed")
	case s.request.Clear:
		p.Face = &Face{Consume: true}
		if maintenance.PhaseOf(s.Node) == maintenance.PhaseError {
			p.tell(EventCleared, "the refusal of maintenance was dismissed")
		}
	default:
		s.withdrawStale(p)
	}
}

func validatingFace(id, message string) *Face {
	return &Face{Phase: maintenance.PhaseValidating, Status: corev1.ConditionUnknown, Message: message, RequestID: id}
}

// Young is how long after its creation a node is looked at for marks that are meant for
// another node of its name.
const Young = 10 * time.Minute

// withdrawStale withdraws evacuations that were asked for when another node had this
// name: its VMs run on where the machine was only registered anew. They are told by
// launchers that are older than the node. A node that somebody has cordoned is left
// alone: its evacuations may be a drain of theirs.
func (s *situation) withdrawStale(p *Plan) {
	young := s.FirstLook || s.Now.Sub(s.Node.CreationTimestamp.Time) <= Young
	if !young || s.Node.Spec.Unschedulable {
		return
	}
	for n := range s.Instances {
		i := &s.Instances[n]
		older := len(i.Launchers) > 0
		for _, launcher := range i.Launchers {
			older = older && launcher.CreationTimestamp.Before(&s.Node.CreationTimestamp)
		}
		if !older || i.VMI.Status.EvacuationNodeName != s.Name || i.VMI.IsFinal() {
			continue
		}
		p.do(Withdraw{VMI: i.VMI, Node: s.Name})
		if m := i.migration(); m != nil && s.ours(m) && !migrationUnderWay(m) && m.DeletionTimestamp == nil {
			p.do(DeleteMigration{Migration: m, VMI: i.VMI})
		}
	}
}

// Admit decides about a request on live reads. The caller holds the cluster's
// admission: see the gather and execute packages for how two requests never both
// pass a limit of one. The request's id becomes the maintenance's.
func Admit(snapshot *Snapshot) (*Plan, error) {
	s, err := observe(snapshot)
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	if s.Node != nil && (s.words.Engaged(s.Node) || !s.request.Wanted) {
		return p, nil
	}
	id := s.ID
	if s.Node != nil && s.Node.Annotations[maintenance.AnnotationRequestID] != "" {
		id = s.Node.Annotations[maintenance.AnnotationRequestID]
	}
	if s.Pending != "" {
		s.wakePending(p)
		// A check that is skipped for a moment would let pass what it is there to refuse.
		p.Face = validatingFace(id, "the pre-checks wait until "+s.Pending+" known")
		return p, nil
	}
	p.Findings = s.run(requestChecks)
	fates := s.fates()
	p.warnUnknown(fates)
	if len(refusals(p.Findings)) > 0 {
		message := "refused: " + Refusal(p.Findings)
		p.Face = &Face{Phase: maintenance.PhaseError, Status: corev1.ConditionFalse, Message: message, Consume: true}
		p.warn(EventRefused, message)
		return p, nil
	}
	record := &maintenance.NodeRecord{
		ID: id, RequestedBy: s.request.By, Forced: s.forced, Started: metav1.NewTime(s.Now),
		// What is cordoned already needs no cordon: an uncordon from here on is a human's.
		CordonedBefore: s.Node.Spec.Unschedulable, Cordoned: s.Node.Spec.Unschedulable,
	}
	for n := range s.Instances {
		i := &s.Instances[n]
		if i.VMI.Status.EvacuationNodeName == s.Name {
			record.MarkedBefore = append(record.MarkedBefore, i.VMI.UID)
		}
		if !i.VMI.IsFinal() {
			record.VMs++
		}
	}
	for n := range fates {
		if fates[n].blocked != nil {
			record.Unmovable = append(record.Unmovable, fates[n].instance.VMI.UID)
		}
	}
	p.Face = &Face{
		Phase: maintenance.PhaseDraining, Status: corev1.ConditionTrue, MaintainStatus: s.words.Running,
		Message: "the pre-checks passed; the node is being cordoned" + warnings(p.Findings), Record: record, Consume: true,
	}
	p.tell(EventDraining, p.Face.Message)
	return p, nil
}

// Check runs the pre-checks for a node without asking for anything, as a client does
// that wants to know beforehand. force tells whether the request would be forced.
func Check(snapshot *Snapshot, force bool) ([]Finding, []Fate, error) {
	s, err := observe(snapshot)
	if err != nil {
		return nil, nil, err
	}
	s.forced = force
	return s.run(requestChecks), s.fates(), nil
}

// CheckCordon says what a plain cordon of the node would break: only the last node on
// which anything can be placed must stay. A node that takes nothing already, because it
// is not Ready or in maintenance, may be cordoned.
func CheckCordon(snapshot *Snapshot) ([]Finding, error) {
	s, err := observe(snapshot)
	if err != nil || s.Node == nil || !maintenance.NodeReady(s.Node) || s.engaged(s.Node) {
		return nil, err
	}
	return s.run([]check{checkLastNode}), nil
}

// CheckMembers runs those pre-checks of a request that rest on the nodes alone, for an
// answer within an admission request. None of them yields to force.
func CheckMembers(snapshot *Snapshot) ([]Finding, error) {
	s, err := observe(snapshot)
	if err != nil || s.record != nil {
		return nil, err
	}
	return s.run([]check{checkQuorum, checkLastNode}), nil
}

// Refusal is the one sentence in which findings refuse a request, the same wherever it
// is asked; "" when none of them refuses.
func Refusal(findings []Finding) string { return sentence(refusals(findings)) }
