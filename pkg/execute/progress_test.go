package execute

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

type countedPatches int

func (c *countedPatches) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*corev1.Node, error) {
	*c++
	return &corev1.Node{}, nil
}

// Progress is told once for all that happens within a second, a transition or what an
// event tells at once.
func TestProgressIsCoalesced(t *testing.T) {
	var patches countedPatches
	clock := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	e := &Executor{observer: unobserved{}, nodes: &patches, memory: NewMemory(), clock: clock}
	record := &maintenance.NodeRecord{ID: "m"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{maintenance.AnnotationNodeRecord: record.Encode()}}}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: maintenance.ConditionType, Status: corev1.ConditionTrue, Reason: string(maintenance.PhaseDraining), Message: "3 of 3 VMs left",
	}}
	for _, step := range []struct {
		after   time.Duration
		message string
		phase   maintenance.Phase
		patches countedPatches
		wait    time.Duration
		telling bool
	}{
		{0, "3 of 3 VMs left", maintenance.PhaseDraining, 0, 0, false},
		{0, "2 of 3 VMs left", maintenance.PhaseDraining, 0, time.Second, false},
		{400 * time.Millisecond, "2 of 3 VMs left: 1 migrating", maintenance.PhaseDraining, 0, 600 * time.Millisecond, false},
		{600 * time.Millisecond, "2 of 3 VMs left: 1 migrating", maintenance.PhaseDraining, 1, 0, false},
		// The cache does not show that write yet.
		{time.Millisecond, "2 of 3 VMs left: 1 migrating", maintenance.PhaseDraining, 1, time.Second, false},
		{0, "nothing is left to evict", maintenance.PhaseEvacuating, 2, 0, false},
		// An event that the message keeps from being told again must not wait for it.
		{time.Millisecond, "uncordoned", maintenance.PhaseDraining, 3, 0, true},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		face := &plan.Face{Phase: step.phase, Status: corev1.ConditionTrue, Message: step.message, Record: record}
		wait, err := e.show(t.Context(), node, face, step.telling, clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		if patches != step.patches || wait != step.wait {
			t.Errorf("%s: %d patches and a wait of %s, want %d and %s", step.message, patches, wait, step.patches, step.wait)
		}
	}
}

// What is refused and the rest relies on is told on the node, whose phase stays.
func TestARefusedCordonIsTold(t *testing.T) {
	record := &maintenance.NodeRecord{ID: "m"}
	for name, test := range map[string]struct {
		err     error
		patches int
	}{
		"refused":    {apierrors.NewForbidden(corev1.Resource("nodes"), "n", errors.New("not on a Friday")), 1},
		"a conflict": {apierrors.NewConflict(corev1.Resource("nodes"), "n", errors.New("changed")), 0},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := &policed{err: test.err}
			clock := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
			e := &Executor{observer: unobserved{}, nodes: nodes, memory: NewMemory(), clock: clock}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{
				maintenance.AnnotationNodeRecord: record.Encode(), maintenance.AnnotationStatus: maintenance.StatusRunning,
			}}}
			node.Status.Conditions = []corev1.NodeCondition{{
				Type: maintenance.ConditionType, Status: corev1.ConditionTrue, Reason: string(maintenance.PhaseDraining), Message: "is being cordoned",
			}}
			p := &plan.Plan{Actions: []plan.Action{plan.Cordon{Record: record}}}
			wait, err := e.Node(t.Context(), node, p)
			if !errors.Is(err, test.err) {
				t.Errorf("the error is %v", err)
			}
			if test.patches > 0 {
				// Messages are gathered for a second.
				clock.SetTime(clock.Now().Add(wait))
				if _, err := e.Node(t.Context(), node, p); !errors.Is(err, test.err) {
					t.Errorf("the error is %v", err)
				}
			}
			if len(nodes.shown) != test.patches {
				t.Fatalf("shown is %s", nodes.shown)
			}
			for _, shown := range nodes.shown {
				if !strings.Contains(shown, "not on a Friday") || !strings.Contains(shown, `"reason":"Draining"`) || strings.Contains(shown, maintenance.AnnotationStatus) {
					t.Errorf("shown is %s", shown)
				}
			}
		})
	}
}

// policed lets only status be patched.
type policed struct {
	err   error
	shown []string
}

func (r *policed) Patch(_ context.Context, _ string, _ types.PatchType, raw []byte, _ metav1.PatchOptions, subresources ...string) (*corev1.Node, error) {
	if len(subresources) == 0 {
		return nil, r.err
	}
	r.shown = append(r.shown, string(raw))
	return &corev1.Node{}, nil
}
