package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"

	"github.com/drydock-dev/drydock/tests/operator"
)

// Only "true" asks for something. What else is written there is answered, and empties
// no host.
func TestAValueThatIsNotTrueAsksForNothingAndIsAnswered(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		key, value string
		asks       bool
	}{
		{maintenance.AnnotationRequested, "yes", false},
		{maintenance.AnnotationRequested, "1", false},
		{maintenance.AnnotationRequested, "false", false},
		{maintenance.AnnotationForced, "maybe", false},
		{maintenance.AnnotationRequested, "True", true},
		{maintenance.AnnotationRequested, " true ", true},
	} {
		t.Run(test.key+"="+test.value, func(t *testing.T) {
			t.Parallel()
			c := drydock(t)
			host := c.Pool(t, 2).Host(0)
			history := c.RecordNode(t, host)
			operator.Annotate(t, c, host, map[string]string{test.key: test.value})
			if test.asks {
				operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
				return
			}
			operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceRequestInvalid", test.key, `"`+test.value+`"`)
			operator.Annotate(t, c, host, map[string]string{"test.drydock.dev/touched": "true"})
			node := c.AwaitNode(t, host, "touched", func(n *corev1.Node) bool { return n.Annotations["test.drydock.dev/touched"] != "" })
			if got := node.Annotations[test.key]; got != test.value {
				t.Errorf("the annotation is %q, want it left as it was written", got)
			}
			for _, version := range history.To(t, node) {
				if maintenance.Condition(version) != nil || version.Spec.Unschedulable {
					t.Fatalf("the node shows %s", brief(version))
				}
			}
			if got := countEvents(t, c, "Node", "", host, "MaintenanceRequestInvalid"); got != 1 {
				t.Errorf("the value was answered %d times", got)
			}
		})
	}
}

// What is told once must not be lost because the write that follows fails.
func TestAnUnknownStrategyIsToldAlsoWhenAWriteFails(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t, operator.Movable(c, ns, "a", pool).Strategy("Nonsense"))
	release := operator.HoldBefore(t, c, host, maintenance.PhaseDraining)
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseValidating)
	c.Eventually(t, "the manager has tried", func(context.Context) error {
		if log := shared.Of(t, c, nil).Log(); !strings.Contains(log, host) || !strings.Contains(log, "refused by a test") {
			return errors.New("it has not")
		}
		return nil
	})
	release()
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitEvent(t, c, "VirtualMachine", ns, "a", "MaintenanceStrategyUnknown")
}
