package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/maintenance"

	"github.com/drydock-dev/drydock/tests/operator"
)

// The control plane's own hosts, cp1 to cp3, belong to this test alone: no other
// brings one of them into maintenance or cuts its power. All ways of counting are a
// table in pkg/plan.
func TestTheControlPlaneKeepsItsQuorum(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	t.Cleanup(func() {
		const clean = `{"metadata":{"annotations":{"sim.drydock.dev/power":null,"harvesterhci.io/maintain-status":null,"harvesterhci.io/drain-requested":null}}}`
		for _, node := range []string{"cp1", "cp2", "cp3"} {
			if _, err := c.Kube.CoreV1().Nodes().Patch(context.Background(), node, types.MergePatchType, []byte(clean), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		}
	})

	// Asked in the same instant, one passes and one is refused.
	var asking sync.WaitGroup
	for _, node := range []string{"cp1", "cp2"} {
		asking.Go(func() { operator.Request(t, c, node) })
	}
	asking.Wait()
	in, out := "cp1", "cp2"
	first := c.AwaitNode(t, in, "an answer", answered)
	if !maintenance.Engaged(first) {
		in, out = out, in
	}
	message := operator.Message(awaitRefused(t, c, out, "1 of 3", "2 are needed for quorum", in+" (in maintenance)"))
	operator.AwaitPhase(t, c, in, maintenance.PhaseCompleted)

	// Force does not override it, and says the same. The old reason stands until then.
	operator.Force(t, c, out)
	operator.AwaitEvent(t, c, "Node", "", out, "MaintenanceRequested", "with force")
	if forced := operator.Message(awaitRefused(t, c, out)); forced != message {
		t.Errorf("with force the reason is %q, without it was %q", forced, message)
	}
	operator.Request(t, c, "cp3")
	awaitRefused(t, c, "cp3", in+" (in maintenance)")

	// One that has left counts again, and a member that is down does not.
	operator.Leave(t, c, in)
	operator.AwaitOut(t, c, in)
	operator.Annotate(t, c, "cp3", map[string]string{"sim.drydock.dev/power": "off"})
	c.AwaitNode(t, "cp3", "not Ready", func(n *corev1.Node) bool { return !ready(n) })
	operator.Request(t, c, out)
	awaitRefused(t, c, out, "cp3 (not Ready)")
	// To take the dead one out of service costs no quorum.
	operator.Request(t, c, "cp3")
	unforced := operator.Message(awaitRefused(t, c, "cp3", "is not Ready", "force overrides this"))
	if strings.Contains(unforced, "quorum") {
		t.Errorf("a member that is down is refused for quorum: %s", unforced)
	}
	operator.Force(t, c, "cp3")
	c.AwaitNode(t, "cp3", "engaged", maintenance.Engaged)
	operator.Leave(t, c, "cp3")
	operator.AwaitOut(t, c, "cp3")
	operator.Annotate(t, c, "cp3", map[string]string{"sim.drydock.dev/power": ""})
	c.AwaitNode(t, "cp3", "Ready again", ready)
	operator.Request(t, c, out)
	operator.AwaitPhase(t, c, out, maintenance.PhaseCompleted)
	operator.Leave(t, c, out)
	operator.AwaitOut(t, c, out)
}

// A worker carries nothing of the quorum.
func TestAWorkerIsNoMatterOfQuorum(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	pool := c.Pool(t, 3)
	for _, host := range pool.Hosts {
		operator.Request(t, c, host)
	}
	for _, host := range pool.Hosts {
		operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	}
}

// answered: the request was admitted or refused.
func answered(node *corev1.Node) bool {
	return noRequest(node) && maintenance.Condition(node) != nil
}

func ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
