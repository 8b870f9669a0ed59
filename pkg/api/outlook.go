package api

import (
	"context"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// Outlook is the answer of maintenancePlan: what a request would lead to now, with and
// without force, and what the node is in.
type Outlook struct {
	// Node is its name, Phase that of its maintenance, "" for none.
	Node  string            `json:"node"`
	Phase maintenance.Phase `json:"phase"`
	// Message is that of its condition.
	Message string `json:"message,omitempty"`
	// Pending says what is not known yet, "" for nothing: the answers may then be too good.
	Pending  string   `json:"pending,omitempty"`
	Unforced Prospect `json:"unforced"`
	Forced   Prospect `json:"forced"`
}

// Prospect is what would happen.
type Prospect struct {
	// Refusal is the sentence with which a request would be refused, "" for not.
	Refusal string `json:"refusal"`
	// Checks are the findings of the pre-checks, warnings included.
	Checks []plan.Finding `json:"checks"`
	// VirtualMachines are those on the node, each with its fate.
	VirtualMachines []plan.Fate `json:"virtualMachines"`
}

// maintenancePlan shows the whole plan. It refuses nothing: a node in maintenance has an
// outlook as well.
func (s *server) maintenancePlan(ctx context.Context, c *call) (any, error) {
	snapshot, err := s.Observer.Live(ctx, c.node.Name)
	if err != nil {
		return nil, err
	}
	outlook := &Outlook{Node: c.node.Name, Phase: maintenance.PhaseOf(c.node), Pending: snapshot.Pending}
	if condition := maintenance.Condition(c.node); condition != nil {
		outlook.Message = condition.Message
	}
	if outlook.Unforced, err = prospect(snapshot, false); err != nil {
		return nil, err
	}
	outlook.Forced, err = prospect(snapshot, true)
	return outlook, err
}

func prospect(snapshot *plan.Snapshot, force bool) (Prospect, error) {
	findings, fates, err := plan.Check(snapshot, force)
	if err != nil {
		return Prospect{}, err
	}
	p := Prospect{Refusal: plan.Refusal(findings), Checks: findings, VirtualMachines: fates}
	if p.Checks == nil {
		p.Checks = []plan.Finding{}
	}
	if p.VirtualMachines == nil {
		p.VirtualMachines = []plan.Fate{}
	}
	return p, nil
}
