package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"

	"github.com/drydock-dev/drydock/pkg/execute"
	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// admissionTries bounds how often a decision is made anew because another decider
// was faster; more than a handful of deciders do not exist.
const admissionTries = 10

// abreast is how many decisions are carried out at once.
const abreast = 10

// verdict is what was decided about a request, and the node as it was then.
type verdict struct {
	plan *plan.Plan
	node *corev1.Node
}

// admit decides about all requests that there are, and carries the decisions out. They
// are decided about together, since each decision alone would read all nodes anew: of
// fifty requests the last would wait for fifty readings.
func (c *Controller) admit(ctx context.Context, name string) error {
	if !c.admitting.take(name) {
		// The decision takes a few requests; a worker is not parked for them.
		return nil
	}
	verdicts, missed, err := c.takeTurn(ctx)
	if err != nil {
		return err
	}
	errs, done := make([]error, len(verdicts)), make([]bool, len(verdicts))
	workqueue.ParallelizeUntil(ctx, abreast, len(verdicts), func(n int) {
		v := verdicts[n]
		if errs[n] = c.carryOut(ctx, v.node, v.plan); errs[n] == nil {
			done[n] = true
			c.Observer.Decided(v.plan)
		}
	})
	err = nil
	for n, v := range verdicts {
		switch {
		case !done[n] && v.node.Name == name && errs[n] != nil:
			err = errs[n]
		case !done[n]:
			// Its own pass decides again, and tells what is wrong. With many to carry out, the
			// time of this one may have ended before it was its turn.
			c.Nodes.EnqueueAfter(v.node.Name, time.Second)
		case missed[v.node.Name]:
			// What its pass came for may be newer than the decision.
			c.enqueueNode(v.node.Name)
		}
	}
	return err
}

// takeTurn decides, and returns which of the nodes that are decided about missed the turn.
// The others that missed it are looked at at once, the turn being free.
func (c *Controller) takeTurn(ctx context.Context) (verdicts []verdict, missed map[string]bool, err error) {
	defer func() {
		missed = c.admitting.end()
		for node := range missed {
			if !slices.ContainsFunc(verdicts, func(v verdict) bool { return v.node.Name == node }) {
				c.enqueueNode(node)
			}
		}
	}()
	verdicts, err = c.grant(ctx)
	return verdicts, nil, err
}

// asks reports a node whose request waits for its admission.
func (c *Controller) asks(node *corev1.Node) bool {
	return c.wants(node) && node.Annotations[maintenance.AnnotationRequestID] != ""
}

func (c *Controller) wants(node *corev1.Node) bool {
	return !c.Words.Engaged(node) && c.Words.Request(node).Wanted
}

// grant decides about the requests, the oldest first; see execute.Ledger for why two
// never both pass a limit of one. What is granted counts for those after it.
func (c *Controller) grant(ctx context.Context) ([]verdict, error) {
	for range admissionTries {
		page, err := c.Ledger.Read(ctx)
		if err != nil {
			return nil, err
		}
		snapshots, err := c.Gatherer.Asking(ctx, c.asks)
		if err != nil || len(snapshots) == 0 {
			return nil, err
		}
		slices.SortStableFunc(snapshots, func(a, b *plan.Snapshot) int {
			return cmp.Or(askedAt(a.Node).Compare(askedAt(b.Node)), cmp.Compare(a.Name, b.Name))
		})
		verdicts, changed, err := c.judge(page, snapshots)
		if err != nil {
			return nil, err
		}
		if changed {
			if err := c.Ledger.Write(ctx, page); apierrors.IsConflict(err) {
				continue
			} else if err != nil {
				return nil, err
			}
		}
		return verdicts, nil
	}
	return nil, fmt.Errorf("admission was overtaken %d times", admissionTries)
}

func askedAt(node *corev1.Node) time.Time {
	if condition := maintenance.Condition(node); condition != nil {
		return condition.LastTransitionTime.Time
	}
	return time.Time{}
}

// judge decides about one request after the other, and notes on the page what it grants.
func (c *Controller) judge(page *execute.Page, snapshots []*plan.Snapshot) (verdicts []verdict, changed bool, err error) {
	granted := c.prune(page, snapshots[0].Nodes)
	for _, snapshot := range snapshots {
		snapshot.Granted = maps.Clone(granted)
		// A grant of the very request that is decided about is left by a manager that died
		// before the node could show it: whoever decided since has counted it, so it can be
		// used.
		delete(snapshot.Granted, snapshot.Name)
		if err := c.Gatherer.Draining(snapshot); err != nil {
			return nil, false, err
		}
		p, err := plan.Admit(snapshot)
		if err != nil {
			c.Log.WithError(err).WithField("node", snapshot.Name).Error("a request cannot be decided about")
			continue
		}
		if p.Face == nil {
			continue
		}
		switch record := p.Face.Record; {
		case record == nil && granted[snapshot.Name]:
			// Whoever granted it is gone, and it does not pass any more.
			delete(page.Grants, snapshot.Name)
			delete(granted, snapshot.Name)
			changed = true
		case record == nil:
		case page.Grants[snapshot.Name].ID != record.ID:
			page.Grants[snapshot.Name] = execute.Grant{UID: snapshot.Node.UID, ID: record.ID}
			changed, granted[snapshot.Name] = true, true
		default:
			granted[snapshot.Name] = true
		}
		verdicts = append(verdicts, verdict{plan: p, node: snapshot.Node})
	}
	return verdicts, changed, nil
}

// prune drops the grants that the nodes show by now, or that their requests no longer
// stand behind, and returns the nodes that the rest counts as engaged.
func (c *Controller) prune(page *execute.Page, nodes []*corev1.Node) map[string]bool {
	pending := map[string]execute.Grant{}
	for _, node := range nodes {
		if c.wants(node) {
			pending[node.Name] = execute.Grant{UID: node.UID, ID: node.Annotations[maintenance.AnnotationRequestID]}
		}
	}
	granted := map[string]bool{}
	for name, grant := range page.Grants {
		if pending[name] != grant {
			delete(page.Grants, name)
			continue
		}
		granted[name] = true
	}
	return granted
}
