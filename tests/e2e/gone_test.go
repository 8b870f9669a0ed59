package e2e

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// recreate makes a Node under the name of one that was deleted, in the same pool.
func recreate(t *testing.T, c *cluster.Cluster, pool *cluster.Pool, name string) *corev1.Node {
	t.Helper()
	c.Eventually(t, "the Node is gone", func(ctx context.Context) error {
		_, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return errors.New("it is there")
		}
		return nil
	})
	return c.Node(t, name, cluster.Label("test.drydock.dev/pool", pool.Label))
}

// A node that is deleted in mid-drain takes nothing along and leaves nothing behind
// for the next node of its name.
func TestANodeDeletedInMidDrainLeavesNothingToItsSuccessor(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t,
		operator.Movable(c, ns, "later", pool).Strategy("ShutdownAndRestartAfterDisable"),
		operator.Movable(c, ns, "soon", pool).Strategy("ShutdownAndRestartAfterEnable"),
		operator.Movable(c, ns, "shut", pool).Strategy("Shutdown"),
		big(t, c, ns, "big", pool))
	stopped := []string{"later", "soon", "shut"}
	operator.Request(t, c, host)
	awaitStuck(t, c, ns, "big", host)
	for _, name := range stopped {
		c.AwaitNoVMI(t, ns, name)
	}

	deleteNode(t, c, host)
	for _, name := range stopped {
		if vm := operator.AwaitForgotten(t, c, ns, name); !halted(vm) {
			t.Errorf("%s: %s", name, brief(vm))
		}
		operator.AwaitEvent(t, c, "VirtualMachine", ns, name, "MaintenanceStaysOff", host)
	}
	node := recreate(t, c, pool, host)
	if maintenance.Condition(node) != nil || maintenance.Engaged(node) || node.Spec.Unschedulable {
		t.Errorf("the new node shows %s", brief(node))
	}
	awaitWithdrawn(t, c, ns, "big")

	// The new node's own maintenance starts clean.
	setRunStrategy(t, c, ns, "later", "Always")
	operator.AwaitRunningOn(t, c, ns, "later", host)
	operator.Request(t, c, host)
	operator.Annotate(t, c, other, map[string]string{"sim.drydock.dev/memory": "64Gi"})
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	if vm := operator.GetVM(t, c, ns, "later"); operator.Marker(vm) != host {
		t.Errorf("the VM shows %s", brief(vm))
	}
	for _, name := range []string{"soon", "shut"} {
		if vm := operator.GetVM(t, c, ns, name); !halted(vm) {
			t.Errorf("%s was started by the maintenance of a node that only shares a name: %s", name, brief(vm))
		}
	}
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	operator.AwaitRunningOn(t, c, ns, "later", pool.Hosts...)
	for _, name := range []string{"soon", "shut"} {
		if vm := operator.GetVM(t, c, ns, name); !halted(vm) {
			t.Errorf("%s was started: %s", name, brief(vm))
		}
	}
}
