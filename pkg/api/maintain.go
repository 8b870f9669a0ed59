package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// maintenancePossible is what a dialog asks before it offers anything. It refuses for what
// force does not override; what it does is the business of listUnhealthyVM.
func (s *server) maintenancePossible(ctx context.Context, c *call) (any, error) {
	return nil, s.admissible(ctx, c.node, true)
}

// listUnhealthyVM lists the VMs that keep an unforced request from being accepted, by
// reason. A VM that is to be shut down is not among them.
func (s *server) listUnhealthyVM(ctx context.Context, c *call) (any, error) {
	snapshot, err := s.observe(ctx, c.node.Name)
	if err != nil {
		return nil, err
	}
	_, fates, err := plan.Check(snapshot, false)
	if err != nil {
		return nil, err
	}
	return unhealthy(fates), nil
}

// group is an entry of listUnhealthyVM.
type group struct {
	Message string   `json:"message"`
	VMs     []string `json:"vms"`
}

// unhealthy groups the VMs that block by why they do, in the order in which they are found.
func unhealthy(fates []plan.Fate) []group {
	groups, at := []group{}, map[string]int{}
	for i := range fates {
		f := &fates[i]
		if f.Verdict != plan.Block {
			continue
		}
		n, known := at[f.Message]
		if !known {
			n = len(groups)
			at[f.Message], groups = n, append(groups, group{Message: f.Message})
		}
		groups[n].VMs = append(groups[n].VMs, f.Namespace+"/"+f.Name)
	}
	return groups
}

// enableMaintenanceMode asks for maintenance. It refuses with the sentence with which the
// admission would refuse, and before anything is written; the admission looks again.
func (s *server) enableMaintenanceMode(ctx context.Context, c *call) (any, error) {
	force, err := flag(c.body, "force")
	if err != nil {
		return nil, err
	}
	if err := s.admissible(ctx, c.node, force); err != nil {
		return nil, err
	}
	annotations := map[string]any{
		s.Words.Requested: "true", s.Words.Forced: nil, maintenance.AnnotationRequestedBy: c.caller.GetName(),
	}
	if force {
		annotations[s.Words.Forced] = "true"
	}
	return nil, s.write(ctx, c.node, intent{annotations: annotations})
}

// admissible fails with the reason for which a request would be refused. One on a node in
// maintenance needs no pre-checks: it resumes a drain that was given up, or adds force.
func (s *server) admissible(ctx context.Context, node *corev1.Node, force bool) error {
	if idle := s.Idle(); idle != "" {
		return problemf(http.StatusConflict, "%s", idle)
	}
	ours := maintenance.Recorded(node)
	switch {
	case ours && !inMaintenance(node):
		return problemf(http.StatusConflict, "node %s is leaving maintenance; ask again when it has left", node.Name)
	case ours:
		return nil
	case s.Words.Engaged(node):
		return problemf(http.StatusConflict, "node %s is in maintenance by another tool's hand: it has no record of Drydock's", node.Name)
	}
	snapshot, err := s.observe(ctx, node.Name)
	if err != nil {
		return err
	}
	findings, _, err := plan.Check(snapshot, force)
	if err != nil {
		return err
	}
	if sentence := plan.Refusal(findings); sentence != "" {
		return problemf(http.StatusConflict, "%s", sentence)
	}
	return nil
}

// A watch that is behind is waited for, so long as whoever asks would wait.
const (
	lateAgain    = 500 * time.Millisecond
	latePatience = 5 * time.Second
)

// observe takes a fresh snapshot, and fails while something is installed and not known yet:
// what nobody has looked at refuses nothing.
func (s *server) observe(ctx context.Context, name string) (snapshot *plan.Snapshot, err error) {
	err = wait.PollUntilContextTimeout(ctx, lateAgain, latePatience, true, func(ctx context.Context) (bool, error) {
		var err error
		snapshot, err = s.Observer.Live(ctx, name)
		return err == nil && snapshot.PendingAgain == 0, err
	})
	switch {
	case err != nil && !wait.Interrupted(err):
		return nil, err
	case snapshot == nil:
		return nil, fmt.Errorf("node %s: %w", name, err)
	case snapshot.Node == nil:
		return nil, problemf(http.StatusNotFound, "node %q does not exist", name)
	case snapshot.Pending != "":
		return nil, problemf(http.StatusServiceUnavailable, "the pre-checks wait until %s known", snapshot.Pending)
	}
	return snapshot, nil
}

// disableMaintenanceMode leaves maintenance, or takes a request back, in whatever phase the
// node is when the write arrives: all that stands for either is removed at once, so that no
// transition in between makes it miss. What follows is the controller's work.
func (s *server) disableMaintenanceMode(ctx context.Context, c *call) (any, error) {
	wanted := intent{annotations: map[string]any{maintenance.AnnotationStatus: nil}}
	asked := inMaintenance(c.node)
	for _, key := range maintenance.RequestAnnotations {
		if key == maintenance.AnnotationClear {
			continue
		}
		wanted.annotations[key] = nil
		_, present := c.node.Annotations[key]
		asked = asked || present
	}
	if !asked {
		return nil, nil
	}
	if foreign := s.foreign(c.node); foreign != "" {
		// Its own handler starts the VMs that it has stopped, which nobody else would.
		return nil, problemf(http.StatusConflict, "%s: disable it there", foreign)
	}
	if !maintenance.Recorded(c.node) && inMaintenance(c.node) {
		// Nobody else will: the tool that engaged it believes that it is left by another door.
		schedulable := false
		wanted.unschedulable = &schedulable
	}
	return nil, s.write(ctx, c.node, wanted)
}

// foreign says that a node is in Harvester's own maintenance, or on its way there, "" where
// it is not. While Drydock is idle Harvester's controllers serve every request that is
// written in their words.
func (s *server) foreign(node *corev1.Node) string {
	if maintenance.Recorded(node) {
		return ""
	}
	idle := s.Idle()
	switch {
	case idle != "" && maintenance.Takeover.Engaged(node):
		return fmt.Sprintf("node %s is in Harvester's own maintenance (Drydock serves no requests, %s)", node.Name, idle)
	case s.Words.Foreign != "" && s.Words.Engaged(node):
		return fmt.Sprintf("node %s is in Harvester's own maintenance", node.Name)
	}
	return ""
}

// clearMaintenanceMode dismisses the answer to a request that was refused.
func (s *server) clearMaintenanceMode(ctx context.Context, c *call) (any, error) {
	if s.Words.Engaged(c.node) {
		return nil, problemf(http.StatusConflict, "node %s is in maintenance: only a refusal can be dismissed, disableMaintenanceMode leaves", c.node.Name)
	}
	if !refused(c.node) {
		return nil, nil
	}
	return nil, s.write(ctx, c.node, intent{annotations: map[string]any{maintenance.AnnotationClear: "true"}})
}

// cordon takes no further pods, unless nothing would be left that does.
func (s *server) cordon(ctx context.Context, c *call) (any, error) {
	if c.node.Spec.Unschedulable {
		return nil, problemf(http.StatusConflict, "node %s is cordoned already", c.node.Name)
	}
	snapshot, err := s.Observer.Live(ctx, c.node.Name)
	if err != nil {
		return nil, err
	}
	findings, err := plan.CheckCordon(snapshot)
	if err != nil {
		return nil, err
	}
	if sentence := plan.Refusal(findings); sentence != "" {
		return nil, problemf(http.StatusConflict, "%s", sentence)
	}
	return nil, s.schedule(ctx, c, true)
}

func (s *server) uncordon(ctx context.Context, c *call) (any, error) {
	if !c.node.Spec.Unschedulable {
		return nil, problemf(http.StatusConflict, "node %s is not cordoned", c.node.Name)
	}
	return nil, s.schedule(ctx, c, false)
}

func (s *server) schedule(ctx context.Context, c *call, unschedulable bool) error {
	return s.write(ctx, c.node, intent{unschedulable: &unschedulable})
}
