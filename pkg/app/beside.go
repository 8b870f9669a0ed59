package app

import (
	"context"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/drydock-dev/drydock/pkg/harvester"
	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/metrics"
)

// The values of Options.Harvester.
const (
	// HarvesterAuto stays idle while Harvester's own controllers run.
	HarvesterAuto = "auto"
	// HarvesterTakeover takes the requests before they see them.
	HarvesterTakeover = "takeover"
	// HarvesterAbsent does not look.
	HarvesterAbsent = "absent"
)

// words are the vocabulary on nodes.
func (o *Options) words() maintenance.Vocabulary {
	if o.Harvester == HarvesterTakeover {
		return maintenance.Takeover
	}
	return maintenance.Plain
}

// actor is what acts on the cluster while this replica leads.
type actor interface {
	Lead() error
	Rest()
}

const idleNote = "idle: Harvester's own controllers run here (deployment " + harvester.DeploymentNamespace + "/" + harvester.DeploymentName +
	") and would drain the same nodes; --harvester=takeover makes Drydock serve the requests instead of them, --harvester=absent does not look for them"

// gate keeps the actors idle while Harvester's own controllers run.
type gate struct {
	actors  []actor
	metrics *metrics.Metrics
	events  record.EventRecorder
	lease   *coordinationv1.Lease

	mu              sync.Mutex
	controllers     *harvester.Controllers
	leading, acting bool
	idle, told      bool
}

// newGate returns a gate that readiness asks as well.
func (m *manager) newGate(events record.EventRecorder, actors ...actor) *gate {
	g := &gate{actors: actors, metrics: m.metrics, events: events, lease: &coordinationv1.Lease{}}
	g.lease.APIVersion, g.lease.Kind = coordinationv1.SchemeGroupVersion.String(), "Lease"
	g.lease.Namespace, g.lease.Name = m.options.Namespace, leaderLease
	m.ready.note(g.Idle)
	return g
}

// besideHarvester returns what begins to act once this replica leads.
func (m *manager) besideHarvester(ctx context.Context, g *gate) (lead func() error, err error) {
	if m.options.Harvester == HarvesterAuto {
		m.ready.set("Harvester's Deployment")
		controllers, err := harvester.WatchControllers(ctx, m.kube, g.look)
		if err != nil {
			return nil, err
		}
		g.mu.Lock()
		g.controllers = controllers
		g.mu.Unlock()
		g.look()
	}
	if m.options.Harvester == HarvesterTakeover {
		lead, err := m.watchTakeover(ctx, g.events, g.lease)
		if err != nil {
			return nil, err
		}
		return func() error {
			lead()
			return g.lead()
		}, nil
	}
	return g.lead, nil
}

// Idle says why nothing is done, "" while requests are served.
func (g *gate) Idle() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle {
		return idleNote
	}
	return ""
}

func (g *gate) lead() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leading = true
	g.say()
	return g.act()
}

// look follows Harvester's controllers.
func (g *gate) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.controllers == nil || g.idle == g.controllers.Run() {
		return
	}
	g.idle = !g.idle
	g.say()
	if err := g.act(); err != nil {
		logrus.WithError(err).Error("beginning to act")
	}
}

// act makes the actors do what the state asks for.
func (g *gate) act() error {
	wanted := g.leading && !g.idle
	if wanted == g.acting {
		return nil
	}
	g.acting = wanted
	for _, a := range g.actors {
		if !wanted {
			a.Rest()
			continue
		}
		if err := a.Lead(); err != nil {
			return fmt.Errorf("beginning to act: %w", err)
		}
	}
	return nil
}

// say tells loudly that nothing is done, and why, and that it is over.
func (g *gate) say() {
	switch {
	case g.idle:
		g.told = true
		g.metrics.Idle(true)
		logrus.Warn(idleNote)
		if g.leading {
			g.events.Event(g.lease, corev1.EventTypeWarning, "Idle", idleNote)
		}
	case g.told:
		g.told = false
		g.metrics.Idle(false)
		logrus.Warn("no longer idle: Harvester's own controllers are gone")
		if g.leading {
			g.events.Event(g.lease, corev1.EventTypeNormal, "Working", "no longer idle: Harvester's own controllers are gone")
		}
	}
}
