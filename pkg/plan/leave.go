package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

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
		after := ""
		if limit := s.Config.DrainTimeout; limit > 0 {
			// Else it was another manager's, whose limit is not known any more.
			after = " after " + limit.String()
		}
		face.Message = fmt.Sprintf("timed out%s; %s; %s", after, left, next)
	}
	face.Message += s.offSentence(Lasts)
	p.Face = face
}

// leave takes the node out of maintenance, from whatever phase. Each step is
// observed to be done before the next is taken, so that a crash in between is picked
// up where it stopped.
func (s *situation) leave(p *Plan) {
	if hasTaint(s.Node, s.KubeVirt.DrainTaint) {
		p.do(RemoveTaint{Key: s.KubeVirt.DrainTaint})
	}
	if withdrawn, left := s.withdraw(p); left {
		face := s.currentFace()
		face.Message = "leaving maintenance: evacuations are being withdrawn"
		if len(withdrawn) > 0 {
			face.Message += ": " + names(withdrawn)
		}
		p.Face = face
		return
	}
	cordoned := s.Node.Spec.Unschedulable
	// Whoever uncordoned the node in the middle of its drain ended Drydock's cordon: one that
	// stands since is by another hand.
	again := s.record.Halted == maintenance.HaltUncordoned
	if cordoned && s.record.Cordoned && !s.record.CordonedBefore && !again {
		p.do(Uncordon{})
		cordoned = false
	}
	waiting := s.startStopped(p, Over)
	p.Face = &Face{Consume: true}
	message := "the node has left maintenance"
	switch {
	case cordoned && again:
		message += "; it stays cordoned, as somebody else has cordoned it since"
	case cordoned:
		message += "; it stays cordoned, as it was before"
	}
	if len(waiting) > 0 {
		message += "; not started yet: " + names(waiting)
	}
	p.tell(EventLeft, message)
	if s.request.Wanted {
		// Kept, it would cordon the node again that has just been left.
		p.warn(EventDropped, "a request that was made while the node was leaving maintenance is dropped: ask again")
	}
}
