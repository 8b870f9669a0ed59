package api

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Hardware switches the machines of nodes, where somebody manages them. What cannot be done
// now is a refusal, not an error.
type Hardware interface {
	// Power reports whether somebody manages the node's hardware, and what keeps its power
	// from being controlled, "" for nothing.
	Power(ctx context.Context, node string) (managed bool, refusal string, err error)
	// Switch asks for an operation.
	Switch(ctx context.Context, node, operation string) (refusal string, err error)
}

// controllable fails for a node whose power cannot be controlled. Where nobody manages it
// the answer has no body: a front-end does not offer it then, and shows nothing.
func (s *server) controllable(ctx context.Context, node string) error {
	managed, refusal, err := s.Hardware.Power(ctx, node)
	switch {
	case err != nil:
		return err
	case !managed:
		return problemf(http.StatusFailedDependency, "")
	case refusal != "":
		return problemf(http.StatusConflict, "%s", refusal)
	}
	return nil
}

func (s *server) powerActionPossible(ctx context.Context, c *call) (any, error) {
	return nil, s.controllable(ctx, c.node.Name)
}

// powerAction has the machine switched. It is refused while anything may be
// running on it that the switch would kill.
func (s *server) powerAction(ctx context.Context, c *call) (any, error) {
	operation, err := oneOf(c.body, "operation", "shutdown", "poweron", "reboot")
	if err != nil {
		return nil, err
	}
	if err := s.controllable(ctx, c.node.Name); err != nil {
		return nil, err
	}
	if err := s.switchable(c.node); err != nil {
		return nil, err
	}
	refusal, err := s.Hardware.Switch(ctx, c.node.Name, operation)
	if err == nil && refusal != "" {
		err = problemf(http.StatusConflict, "%s", refusal)
	}
	return nil, err
}

// switchable fails while the node is Ready and VMs may run on it: the condition tells what
// is so only while Drydock follows the node.
func (s *server) switchable(node *corev1.Node) error {
	phase, foreign, idle := maintenance.PhaseOf(node), s.foreign(node), s.Idle()
	switch {
	case !maintenance.NodeReady(node):
		return nil
	case foreign != "":
		return problemf(http.StatusConflict, "%s: switch its power there", foreign)
	case phase != maintenance.PhaseCompleted:
		return problemf(http.StatusConflict, "node %s is Ready and %s: its power is switched when maintenance is %s", node.Name, phrase(phase), maintenance.PhaseCompleted)
	case !inMaintenance(node):
		return problemf(http.StatusConflict, "node %s is Ready and leaving maintenance: its power is switched when maintenance is %s", node.Name, maintenance.PhaseCompleted)
	case idle != "":
		return problemf(http.StatusConflict, "node %s is Ready, and nobody has looked what runs on it since maintenance was %s (%s)", node.Name, phase, idle)
	}
	return nil
}

func phrase(phase maintenance.Phase) string {
	if phase == maintenance.PhaseNone {
		return "not in maintenance"
	}
	return "in maintenance phase " + string(phase)
}
