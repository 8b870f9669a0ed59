package execute

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// written keeps Events by name, as the API server does.
type written map[string]*corev1.Event

func (w written) Create(_ context.Context, event *corev1.Event, _ metav1.CreateOptions) (*corev1.Event, error) {
	if w[event.Name] != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, event.Name)
	}
	w[event.Name] = event
	return event, nil
}

// A manager that died between the node's patch and the Event is succeeded by one that
// tells it; where the Event was written, it is not told twice.
func TestATransitionIsToldOnceWhoeverDies(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(at)
	log := logrus.New()
	log.SetOutput(io.Discard)
	events := written{}
	e := &Executor{observer: unobserved{}, transitions: events, clock: clock, log: log}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("n", 253), UID: "u"}}
	draining := func(since time.Time) {
		node.Status.Conditions = []corev1.NodeCondition{{Type: maintenance.ConditionType, Status: corev1.ConditionTrue, Reason: string(maintenance.PhaseDraining), Message: "m", LastTransitionTime: metav1.NewTime(since)}}
	}

	e.tellTransition(t.Context(), node, maintenance.PhaseDraining, at.Add(300*time.Millisecond), at, plan.Event{Reason: plan.EventDraining, Message: "m"})
	draining(at)
	e.Retell(t.Context(), node)
	if len(events) != 1 {
		t.Fatalf("%d events, want the one that was told", len(events))
	}
	draining(at.Add(5 * time.Second))
	e.Retell(t.Context(), node)
	e.Retell(t.Context(), node)
	if len(events) != 2 {
		t.Errorf("%d events, want one for each transition", len(events))
	}
	for name, event := range events {
		if len(name) > 253 || event.InvolvedObject.UID != "u" || event.Reason != string(plan.EventDraining) {
			t.Errorf("event %+v", event)
		}
	}
	clock.SetTime(at.Add(time.Hour))
	draining(at.Add(time.Minute))
	e.Retell(t.Context(), node)
	if len(events) != 2 {
		t.Error("an old transition was told again")
	}
}

// Whoever repeats the last step of leaving does not tell it twice, and a node that was
// never in maintenance has nothing to leave.
func TestLeavingIsToldOnceBeforeItIsWritten(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(at.Add(time.Hour))
	log := logrus.New()
	log.SetOutput(io.Discard)
	events := written{}
	e := &Executor{observer: unobserved{}, nodes: refusing{}, transitions: events, clock: clock, log: log, memory: NewMemory()}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", UID: "u", Annotations: map[string]string{maintenance.AnnotationNodeRecord: "{}"}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: maintenance.ConditionType, Reason: string(maintenance.PhaseCompleted), LastTransitionTime: metav1.NewTime(at)}}
	p := &plan.Plan{Face: &plan.Face{Consume: true}, Events: []plan.Event{{Reason: plan.EventLeft, Message: "left"}, {Reason: plan.EventDropped, Message: "dropped", Warning: true}}}
	for range 2 {
		if _, err := e.Node(t.Context(), node, p); err == nil {
			t.Fatal("the write is not refused")
		}
	}
	told := map[string]bool{}
	for _, event := range events {
		told[event.Reason] = true
		if !event.FirstTimestamp.Time.Equal(clock.Now()) {
			t.Errorf("event %+v", event)
		}
	}
	if len(events) != 2 || !told[string(plan.EventLeft)] || !told[string(plan.EventDropped)] {
		t.Errorf("%d events, want one of each: %v", len(events), told)
	}
}

// refusing refuses every patch.
type refusing struct{}

func (refusing) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*corev1.Node, error) {
	return nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "w1", nil)
}
