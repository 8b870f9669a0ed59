package plan

import (
	"fmt"
	"slices"
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
		p.Events = append(p.Events, requestInvalid(problem))
	}
	switch {
	case s.record == nil && Orphaned(s.words, s.Node):
		s.clearOrphan(p)
	case s.record == nil && s.words.Engaged(s.Node):
		// Without Drydock's record it is somebody else's maintenance.
		if s.request.Foreign {
			p.Events = append(p.Events, notServed(s.Node))
		}
	case s.record == nil:
		s.outside(p)
	case s.Node.Annotations[maintenance.AnnotationStatus] == "":
		s.leave(p)
	case s.request.Wanted || s.request.Forced:
		s.askedAgain(p)
	default:
		s.engagedPhase(p)
	}
	return p, nil
}

// Orphaned reports a node that shows a maintenance of Drydock's, and has lost the record
// of it: somebody removed the annotations by hand, which a condition outlives. Harvester
// leaves its own annotations on a node that it has in maintenance.
func Orphaned(words maintenance.Vocabulary, node *corev1.Node) bool {
	_, staying := node.Annotations[maintenance.AnnotationStatus]
	c := maintenance.Condition(node)
	return !maintenance.Recorded(node) && !staying && !words.Request(node).Foreign && c != nil && c.Status == corev1.ConditionTrue
}

// clearOrphan ends a maintenance without a record. Whether the node was cordoned before,
// and by whom it is now, nobody knows: it stays as it is. Its VMs come back by their own
// records.
func (s *situation) clearOrphan(p *Plan) {
	if !hasTaint(s.Node, s.KubeVirt.DrainTaint) {
		if _, left := s.withdraw(p); left {
			p.wake(time.Second)
			return
		}
	}
	p.Face = &Face{}
	message := "the annotations of this maintenance were removed by hand: it has ended"
	if s.Node.Spec.Unschedulable {
		message += "; the node is still cordoned: kubectl uncordon " + s.Name
	}
	p.warn(EventLeft, message)
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
		face.MaintainStatus = s.words.Running
		p.tell(EventResumed, "the node was uncordoned; its drain is resumed on request")
	case s.request.Forced && !record.Forced:
		record.Forced = true
		p.tell(EventForced, "force was added; it applies to the VMs not stopped yet")
	case !s.request.Wanted:
		p.tell(EventAgain, fmt.Sprintf("force was asked for again; the node is %s with force already", face.Phase))
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
	p.WatchPods = face.Phase != maintenance.PhaseCompleted
	cause := s.halt()
	switch {
	case s.Pending != "" && (!p.WatchPods || s.record.Halted != ""):
		// What is shown is still the best that is known.
	case s.Pending != "":
		face.Message = "waiting until " + s.Pending + " known"
		p.Face = face
		s.wakePending(p)
	case !p.WatchPods:
		s.completed(p, face)
	case s.record.Halted == "" && !s.record.Cordoned:
		face.Record.Cordoned = true
		p.do(Cordon{Record: face.Record})
	case cause != "" && !s.PodsKnown:
		// Nothing more is asked for. What is left is told with the pods, which are being
		// listed.
	case s.record.Halted != "":
		s.halted(p, face)
	case cause != "":
		s.giveUp(p, face, cause)
	default:
		if limit := s.Config.DrainTimeout; limit > 0 {
			p.wake(limit - s.record.Elapsed(s.Now))
		}
		s.work(p, face)
	}
}

func (s *situation) wakePending(p *Plan) {
	if s.PendingAgain > 0 {
		p.wake(s.PendingAgain)
	}
}

// halt is why the drain was given up or is to be, "" while it goes on.
func (s *situation) halt() maintenance.HaltCause {
	limit := s.Config.DrainTimeout
	switch {
	case s.record.Halted != "":
		return s.record.Halted
	case !s.Node.Spec.Unschedulable:
		return maintenance.HaltUncordoned
	case limit > 0 && s.record.Elapsed(s.Now) >= limit:
		return maintenance.HaltDrainLimit
	}
	return ""
}

// work drains, and moves the phase on.
func (s *situation) work(p *Plan, face *Face) {
	s.drain(p)
	s.tellMoves(p)
	s.evictPods(p)
	left := s.left(p)
	face.Message = left.message(s)
	face.Record.MarkedBefore = s.stillMarked()
	defer func() { face.Progress = s.progress(p) }()
	switch {
	case !s.PodsKnown:
		face.Message = "listing the node's pods"
	case face.Phase == maintenance.PhaseDraining && left.unsent == 0:
		face.Phase = maintenance.PhaseEvacuating
		p.tell(EventEvacuating, "nothing is left to evict: "+face.Message)
	case face.Phase == maintenance.PhaseEvacuating && left.vms == 0 && left.pods == 0 && len(s.outliving()) > 0:
		face.Message = "waiting for launchers of VMs that were stopped to end: " + names(s.outliving())
	case face.Phase == maintenance.PhaseEvacuating && left.vms == 0 && left.pods == 0:
		s.complete(p, face, left.returnedSentence())
	}
	p.Face = face
}

// outliving names launchers on the node that have outlived the VMI which was stopped: a
// guest may run in them.
func (s *situation) outliving() []string {
	var list []string
	for n := range s.Stopped {
		for _, pod := range s.Stopped[n].Launchers {
			if pod.Spec.NodeName == s.Name {
				list = append(list, pod.Namespace+"/"+pod.Name)
			}
		}
	}
	slices.Sort(list)
	return list
}

// complete starts the VMs that wait for the node to be empty, each once, and ends
// the drain. A start that fails does not delay it.
func (s *situation) complete(p *Plan, face *Face, returned string) {
	s.startStopped(p, Emptied)
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
		face.Phase, face.MaintainStatus = maintenance.PhaseDraining, s.words.Running
		face.Message = "a VM arrived on the node: " + left.message(s)
		// The limit is a drain's, not that of the time in maintenance.
		face.Record.Started = metav1.NewTime(s.Now)
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

// byWord names who asked, in quotes: a support bundle leaves out what is in them.
func byWord(who string) string {
	if who == "" {
		return ""
	}
	return fmt.Sprintf(" by %q", who)
}

func forcedWord(forced bool) string {
	if forced {
		return " with force"
	}
	return ""
}
