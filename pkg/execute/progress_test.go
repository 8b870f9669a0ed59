package execute

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	e := &Executor{nodes: &patches, memory: NewMemory(), clock: clock}
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
