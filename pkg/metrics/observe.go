package metrics

import (
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// Decided counts a decision about a request that was carried out.
func (m *Metrics) Decided(p *plan.Plan) {
	if p.Face == nil {
		return
	}
	switch p.Face.Phase {
	case maintenance.PhaseDraining:
		m.requests.WithLabelValues("admitted").Inc()
	case maintenance.PhaseError:
		m.requests.WithLabelValues("refused").Inc()
		counted := map[plan.CheckName]bool{}
		for _, finding := range p.Findings {
			if !finding.Warning && !counted[finding.Check] {
				counted[finding.Check] = true
				m.refused.WithLabelValues(string(finding.Check)).Inc()
			}
		}
	default:
		// It waits for something that is not known yet.
	}
}

// Evicted counts an answer to an eviction; the code 0 stands for none.
func (m *Metrics) Evicted(launcher bool, code int) {
	pod, answer := "other", "none"
	if launcher {
		pod = "launcher"
	}
	if code != 0 && http.StatusText(code) != "" {
		answer = strconv.Itoa(code)
	}
	m.evictions.WithLabelValues(pod, answer).Inc()
}

// Acted counts the VMs that an action ends the maintenance of.
func (m *Metrics) Acted(action plan.Action, err error) {
	if err != nil {
		return
	}
	switch a := action.(type) {
	case plan.DeleteVMI:
		m.handled.WithLabelValues(string(plan.Delete), "deleted").Inc()
	case plan.Forget:
		record, err := maintenance.VMRecordOf(a.VM)
		if err != nil || record == nil {
			return
		}
		m.handled.WithLabelValues(string(plan.VerdictOf(record.Restart)), forgetOutcome(a, record)).Inc()
	default:
		// What is done to a VM meanwhile is not its end.
	}
}

func forgetOutcome(a plan.Forget, record *maintenance.VMRecord) string {
	switch {
	case a.Told == nil || a.Told.Reason != plan.EventVMStarted:
		return "stays_off"
	case record.Starting:
		return "started"
	}
	return "started_by_others"
}

// Turned measures the phase that a node has left and, where a drain has ended, the
// drain. The node is as it was before, the face what it shows now.
func (m *Metrics) Turned(node *corev1.Node, face *plan.Face) {
	now, from := m.clock.Now(), maintenance.PhaseOf(node)
	if c := maintenance.Condition(node); c != nil && known(from) {
		m.phases.WithLabelValues(string(from)).Observe(now.Sub(c.LastTransitionTime.Time).Seconds())
	}
	draining := from == maintenance.PhaseDraining || from == maintenance.PhaseEvacuating
	outcome := drainOutcome(face)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case from == maintenance.PhaseCompleted && face.Phase == maintenance.PhaseDraining:
		// The record keeps the first start; a VM that arrives days later is a drain of its own.
		m.again[node.Name] = now
		return
	case !draining || outcome == "":
		if face.Phase == maintenance.PhaseNone {
			delete(m.again, node.Name)
		}
		return
	}
	record, err := maintenance.NodeRecordOf(node)
	if err != nil || record == nil {
		return
	}
	began := record.Started.Time
	if again := m.again[node.Name]; again.After(began) {
		began = again
	}
	delete(m.again, node.Name)
	m.drains.WithLabelValues(outcome).Observe(now.Sub(began).Seconds())
}

// drainOutcome is how a drain ends that turns to that face, "" while it goes on.
func drainOutcome(face *plan.Face) string {
	switch face.Phase {
	case maintenance.PhaseCompleted:
		return "completed"
	case maintenance.PhaseNone:
		return "left"
	case maintenance.PhaseError:
		if face.Record != nil && face.Record.Halted == maintenance.HaltUncordoned {
			return "uncordoned"
		}
		return "timed_out"
	default:
		return ""
	}
}

// known reports a phase of Drydock's: others may write a condition of that type.
func known(phase maintenance.Phase) bool {
	switch phase {
	case maintenance.PhaseValidating, maintenance.PhaseDraining, maintenance.PhaseEvacuating, maintenance.PhaseCompleted, maintenance.PhaseError:
		return true
	default:
		return false
	}
}

// writeOutcome is how a write to the API server ended.
func writeOutcome(err error) string {
	switch {
	case err == nil:
		return "written"
	case apierrors.IsConflict(err):
		return "conflict"
	case apierrors.IsNotFound(err):
		return "gone"
	}
	return "failed"
}
