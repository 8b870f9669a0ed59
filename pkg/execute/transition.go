package execute

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// Transitions writes the Events of phase transitions.
type Transitions interface {
	Create(ctx context.Context, event *corev1.Event, opts metav1.CreateOptions) (*corev1.Event, error)
}

// component is the source of Drydock's events.
const component = "drydock"

// transitionEvent is the Event of a transition into a phase, which happened at that time.
// Its name follows from the phase and a time that the node's condition keeps, so that a
// manager which succeeds one that died between the node's patch and the Event tells it
// without telling it twice. Conditions keep whole seconds, and so does the name.
func transitionEvent(node *corev1.Node, phase maintenance.Phase, since, at time.Time, event plan.Event) *corev1.Event {
	hash := fnv.New64a()
	_, _ = fmt.Fprint(hash, node.UID, phase, since.Unix())
	when := metav1.NewTime(at)
	kind := corev1.EventTypeNormal
	if event.Warning {
		kind = corev1.EventTypeWarning
	}
	return &corev1.Event{
		// A node's name may be as long as an Event's.
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%.200s.%016x", node.Name, hash.Sum64())},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: node.Name, UID: node.UID},
		Reason:         string(event.Reason), Message: event.Message, Type: kind, Source: corev1.EventSource{Component: component},
		FirstTimestamp: when, LastTimestamp: when, Count: 1,
	}
}

// tellTransition writes the Events of a transition, each once; a successor knows of the
// first alone. That one cannot be written is logged: nobody waits for it.
func (e *Executor) tellTransition(ctx context.Context, node *corev1.Node, phase maintenance.Phase, since, at time.Time, events ...plan.Event) {
	for n, event := range events {
		told := transitionEvent(node, phase, since, at, event)
		if n > 0 {
			told.Name = fmt.Sprintf("%s-%d", told.Name, n)
		}
		_, err := e.transitions.Create(ctx, told, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			e.log.WithError(err).WithField("node", node.Name).Warnf("event %s was not written", event.Reason)
		}
	}
}

// retellWithin is how old a transition may be that is told again: Events themselves are
// kept for an hour, and one that has expired was told.
const retellWithin = 10 * time.Minute

// Retell writes the Event of the transition that the node shows, in case the manager that
// made it died before it could tell.
func (e *Executor) Retell(ctx context.Context, node *corev1.Node) {
	if c := maintenance.Condition(node); c != nil && e.clock.Since(c.LastTransitionTime.Time) < retellWithin {
		if event := plan.TransitionEvent(c); event != nil {
			e.tellTransition(ctx, node, maintenance.Phase(c.Reason), c.LastTransitionTime.Time, c.LastTransitionTime.Time, *event)
		}
	}
}
