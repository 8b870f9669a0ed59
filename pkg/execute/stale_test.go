package execute

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// versioned notes which version of the node each patch rests on, and gives the node a new
// one.
type versioned struct {
	node  *corev1.Node
	rests []string
}

func (v *versioned) Patch(_ context.Context, _ string, _ types.PatchType, raw []byte, _ metav1.PatchOptions, _ ...string) (*corev1.Node, error) {
	var patch metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &patch); err != nil {
		return nil, err
	}
	v.rests = append(v.rests, patch.ResourceVersion)
	updated := v.node.DeepCopy()
	updated.ResourceVersion = "8"
	return updated, nil
}

// What was decided about a node that has changed since is refused by the API server, which
// knows it by the version alone.
func TestEachWriteToANodeRestsOnTheVersionThatWasLookedAt(t *testing.T) {
	record := &maintenance.NodeRecord{ID: "m"}
	draining := &plan.Face{Phase: maintenance.PhaseDraining, Status: corev1.ConditionTrue, MaintainStatus: maintenance.StatusRunning, Record: record}
	for name, test := range map[string]struct {
		actions []plan.Action
		face    *plan.Face
		want    []string
	}{
		"a cordon":                    {actions: []plan.Action{plan.Cordon{Record: record}}, want: []string{"7"}},
		"an uncordon":                 {actions: []plan.Action{plan.Uncordon{}}, want: []string{"7"}},
		"a taint that is taken away":  {actions: []plan.Action{plan.RemoveTaint{Key: "drain"}}, want: []string{"7"}},
		"what the node shows":         {face: draining, want: []string{"7"}},
		"what it shows no longer":     {face: &plan.Face{Consume: true}, want: []string{"7"}},
		"what it shows with a cordon": {actions: []plan.Action{plan.Cordon{Record: record}}, face: draining, want: []string{"7", "8"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "7", Annotations: map[string]string{maintenance.AnnotationRequested: "true"}}}
			node.Spec.Taints = []corev1.Taint{{Key: "drain", Effect: corev1.TaintEffectNoSchedule}}
			nodes := &versioned{node: node}
			e := &Executor{observer: unobserved{}, nodes: nodes, memory: NewMemory(), clock: clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
			if _, err := e.Node(t.Context(), node, &plan.Plan{Actions: test.actions, Face: test.face}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(nodes.rests, test.want) {
				t.Errorf("the writes rest on the versions %q, want %q", nodes.rests, test.want)
			}
		})
	}
}
