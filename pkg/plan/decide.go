package plan

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Decide says what to do for a node now. It is the only function that knows the
// state machine; see the package's documentation for its diagram.
//
// It fails only when Drydock's record on the node cannot be read: nothing may then
// be done, since nobody knows what to bring back.
func Decide(snapshot *Snapshot) (*Plan, error) {
	s, err := observe(snapshot)
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	if s.Node == nil {
		return p, nil
	}
	for _, problem := range s.request.Problems {
		p.Events = append(p.Events, Event{Reason: EventBadRequest, Message: problem, Once: problem, Warning: true})
	}
	switch {
	case s.record == nil && maintenance.Engaged(s.Node):
		// Without Drydock's record it is somebody else's maintenance.
	case s.record == nil:
		s.outside(p)
	case s.Node.Annotations[maintenance.AnnotationStatus] == "":
		s.leave(p)
	case s.request.Wanted || (s.request.Forced && !s.record.Forced):
		s.askedAgain(p)
	default:
		s.engagedPhase(p)
	}
	return p, nil
}

// outside handles a node that is not in maintenance.
func (s *situation) outside(p *Plan) {
	validating := maintenance.PhaseOf(s.Node) == maintenance.PhaseValidating
	switch {
	case s.request.Wanted && validating:
		p.Admit = true
	case s.request.Wanted:
		p.Face = validatingFace(s.ID, "maintenance was requested; the pre-checks are running")
		p.tell(EventValidating, "maintenance was requested"+forcedWord(s.forced))
	case validating:
		// Force belongs to the request: left behind, it would force the next one.
		p.Face = &Face{Consume: true}
		p.tell(EventCancelled, "the request was taken back before anything was changed")
	default:
		s.withdrawStale(p)
	}
}

func validatingFace(id, message string) *Face {
	return &Face{Phase: maintenance.PhaseValidating, Status: corev1.ConditionUnknown, Message: message, RequestID: id}
}

// whilePending is how soon it is looked again for what is not known yet.
const whilePending = time.Second

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
		if !older || i.VMI.Status.EvacuationNodeName != s.Name || i.final() {
			continue
		}
		p.do(Withdraw{VMI: i.VMI, Node: s.Name})
		if m := i.migration(); m != nil && s.ours(m) && !migrationUnderWay(m) && m.DeletionTimestamp == nil {
			p.do(DeleteMigration{Migration: m})
		}
	}
}

// Admit decides about a request on live reads. The caller holds the cluster's
// admission: see the gather and execute packages for how two requests never both
// pass a limit of one. The request's id becomes
// the maintenance's.
func Admit(snapshot *Snapshot) (*Plan, error) {
	s, err := observe(snapshot)
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	if s.Node != nil && (maintenance.Engaged(s.Node) || !s.request.Wanted) {
		return p, nil
	}
	id := s.ID
	if s.Node != nil && s.Node.Annotations[maintenance.AnnotationRequestID] != "" {
		id = s.Node.Annotations[maintenance.AnnotationRequestID]
	}
	if s.Pending != "" {
		// A check that is skipped for a moment would let pass what it is there to refuse.
		p.Face = validatingFace(id, "the pre-checks wait until "+s.Pending+" known")
		p.wake(whilePending)
		return p, nil
	}
	p.Findings = s.run(requestChecks)
	p.warnUnknown(s.fates())
	if refused := refusals(p.Findings); len(refused) > 0 {
		message := "refused: " + sentence(refused)
		p.Face = &Face{Phase: maintenance.PhaseError, Status: corev1.ConditionFalse, Message: message, Consume: true}
		p.warn(EventRefused, message)
		return p, nil
	}
	record := &maintenance.NodeRecord{
		ID: id, Forced: s.forced, Started: metav1.NewTime(s.Now),
		// What is cordoned already needs no cordon: an uncordon from here on is a human's.
		CordonedBefore: s.Node.Spec.Unschedulable, Cordoned: s.Node.Spec.Unschedulable,
	}
	for n := range s.Instances {
		i := &s.Instances[n]
		if i.VMI.Status.EvacuationNodeName == s.Name {
			record.MarkedBefore = append(record.MarkedBefore, i.VMI.UID)
		}
		if !i.final() {
			record.VMs++
		}
	}
	p.Face = &Face{
		Phase: maintenance.PhaseDraining, Status: corev1.ConditionTrue, MaintainStatus: maintenance.StatusRunning,
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

// askedAgain handles a request, or force, on an engaged node. It changes nothing but
// for a drain that was given up, which it resumes with a new clock, and for force,
// which counts for the VMs not stopped yet.
func (s *situation) askedAgain(p *Plan) {
	face := s.currentFace()
	face.Consume = true
	record := face.Record
	switch {
	case s.request.Wanted && record.Halted != "":
		if unschedulable := s.Node.Spec.Unschedulable; !unschedulable || record.Halted == maintenance.HaltUncordoned {
			// Whoever uncordoned ended whatever cordon there was before, and a cordon that
			// stands since is by another hand.
			record.CordonedBefore, record.Cordoned = unschedulable, unschedulable
		}
		record.Halted, record.Started = "", metav1.NewTime(s.Now)
		record.Forced = record.Forced || s.request.Forced
		face.Phase, face.Status, face.Message = maintenance.PhaseDraining, corev1.ConditionTrue, "resumed on request"
		p.tell(EventResumed, "the drain is resumed on request"+forcedWord(record.Forced))
	case s.request.Wanted && record.Cordoned && !s.Node.Spec.Unschedulable:
		// Uncordoned in maintenance: whoever asks again means it to be kept empty.
		record.Cordoned, record.CordonedBefore, record.Started = false, false, metav1.NewTime(s.Now)
		face.Phase, face.Status, face.Message = maintenance.PhaseDraining, corev1.ConditionTrue, "resumed on request"
		face.MaintainStatus = maintenance.StatusRunning
		p.tell(EventResumed, "the node was uncordoned; its drain is resumed on request")
	case s.request.Forced && !record.Forced:
		record.Forced = true
		p.tell(EventForced, "force was added; it applies to the VMs not stopped yet")
	default:
		p.tell(EventAgain, fmt.Sprintf("maintenance was requested again; the node is %s already", face.Phase))
	}
	p.Face = face
	p.WatchPods = true
}

// currentFace is what the node shows now, to be changed and written back.
func (s *situation) currentFace() *Face {
	record := *s.record
	face := &Face{
		Phase: maintenance.PhaseDraining, Status: corev1.ConditionTrue,
		MaintainStatus: s.Node.Annotations[maintenance.AnnotationStatus], Record: &record,
	}
	if c := maintenance.Condition(s.Node); c != nil {
		face.Phase, face.Status, face.Message = maintenance.Phase(c.Reason), c.Status, c.Message
	}
	return face
}

// engagedPhase goes on with a maintenance.
func (s *situation) engagedPhase(p *Plan) {
	face := s.currentFace()
	if s.Pending != "" {
		p.wake(whilePending)
		p.WatchPods = face.Phase != maintenance.PhaseCompleted
		if p.WatchPods {
			face.Message = "waiting until " + s.Pending + " known"
			p.Face = face
		}
		return
	}
	if face.Phase == maintenance.PhaseCompleted {
		s.completed(p, face)
		return
	}
	p.WatchPods = true
	switch {
	case s.record.Halted != "":
		s.halted(p, face)
		return
	case !s.record.Cordoned:
		face.Record.Cordoned = true
		p.do(Cordon{Record: face.Record})
		return
	case !s.Node.Spec.Unschedulable:
		s.giveUp(p, face, maintenance.HaltUncordoned)
		return
	}
	if limit := s.Config.DrainTimeout; limit > 0 {
		elapsed := s.record.Elapsed(s.Now)
		if elapsed >= limit {
			s.giveUp(p, face, maintenance.HaltDrainLimit)
			return
		}
		p.wake(limit - elapsed)
	}
	s.work(p, face)
}

// work drains, and moves the phase on.
func (s *situation) work(p *Plan, face *Face) {
	s.drain(p)
	s.tellMoves(p)
	s.evictPods(p)
	left := s.left(p)
	face.Message = left.message(s)
	defer func() { face.Progress = s.progress(p) }()
	switch {
	case !s.PodsKnown:
		face.Message = "listing the node's pods"
	case face.Phase == maintenance.PhaseDraining && left.unsent == 0:
		face.Phase = maintenance.PhaseEvacuating
		p.tell(EventEvacuating, "nothing is left to evict: "+face.Message)
	case face.Phase == maintenance.PhaseEvacuating && left.vms == 0 && left.pods == 0:
		s.complete(p, face, left.returnedSentence())
	}
	p.Face = face
}

// complete starts the VMs that wait for the node to be empty, each once, and ends
// the drain. A start that fails does not delay it.
func (s *situation) complete(p *Plan, face *Face, returned string) {
	s.startStopped(p, true)
	if unsafe := checkStorage(s); len(unsafe) > 0 {
		face.Message = "the node is empty, but must not be taken down: " + sentence(unsafe)
		return
	}
	face.Phase, face.MaintainStatus = maintenance.PhaseCompleted, maintenance.StatusCompleted
	face.Message = s.report()
	p.WatchPods = false
	p.tell(EventCompleted, face.Message+returned)
}

// completed keeps watching a node that may be rebooted.
func (s *situation) completed(p *Plan, face *Face) {
	p.VMs = s.fates()
	for n := range p.VMs {
		s.locate(&p.VMs[n])
	}
	if left := s.left(p); left.vms > 0 {
		face.Phase, face.MaintainStatus = maintenance.PhaseDraining, maintenance.StatusRunning
		face.Message = "a VM arrived on the node: " + left.message(s)
		p.warn(EventArrived, face.Message)
		p.Face, p.WatchPods = face, true
		return
	}
	face.Progress = s.progress(p)
	message := s.report()
	if s.record.Cordoned && !s.Node.Spec.Unschedulable {
		message = uncordonedMeanwhile + "; " + message
		if !strings.HasPrefix(face.Message, uncordonedMeanwhile) {
			p.warn(EventUncordoned, uncordonedMeanwhile)
		}
	}
	face.Message = message
	p.Face = face
}

const uncordonedMeanwhile = "the node was uncordoned by somebody else while in maintenance, nothing is done about it"

// giveUp stops the drain and keeps the node engaged.
func (s *situation) giveUp(p *Plan, face *Face, cause maintenance.HaltCause) {
	face.Record.Halted = cause
	s.record.Halted = cause
	s.halted(p, face)
	p.warn(EventError, face.Message)
}

// halted is a drain that was given up: nothing more is asked for, and after an
// uncordon what was asked for is withdrawn.
func (s *situation) halted(p *Plan, face *Face) {
	s.drain(p)
	s.evictPods(p)
	face.Phase, face.Status, face.Progress = maintenance.PhaseError, corev1.ConditionTrue, s.progress(p)
	left := s.left(p).message(s)
	next := "remove the annotation " + maintenance.AnnotationStatus + " to leave maintenance, or request it again to go on"
	switch s.record.Halted {
	case maintenance.HaltUncordoned:
		s.withdraw(p)
		face.Message = fmt.Sprintf("uncordoned by somebody else; %s; %s", left, next)
	default:
		face.Message = fmt.Sprintf("timed out after %s; %s; %s", s.Config.DrainTimeout, left, next)
	}
	face.Message += s.offSentence(false)
	p.Face = face
}

// leave takes the node out of maintenance, from whatever phase. Each step is
// observed to be done before the next is taken, so that a crash in between is picked
// up where it stopped.
func (s *situation) leave(p *Plan) {
	if hasTaint(s.Node, s.KubeVirt.DrainTaint) {
		p.do(RemoveTaint{Key: s.KubeVirt.DrainTaint})
	}
	if s.withdraw(p) {
		face := s.currentFace()
		face.Message = "leaving maintenance: evacuations are being withdrawn"
		p.Face = face
		return
	}
	schedulable := !s.Node.Spec.Unschedulable
	if s.record.Cordoned && !schedulable && !s.record.CordonedBefore {
		p.do(Uncordon{})
		schedulable = true
	}
	waiting := s.startStopped(p, false)
	p.Face = &Face{Consume: true}
	message := "the node has left maintenance"
	if !schedulable {
		message += "; it stays cordoned, as it was before"
	}
	if len(waiting) > 0 {
		message += "; not started yet: " + names(waiting)
	}
	p.tell(EventLeft, message)
}

func forcedWord(forced bool) string {
	if forced {
		return " with force"
	}
	return ""
}
