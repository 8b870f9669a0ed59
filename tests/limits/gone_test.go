package limits

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// What happened while nobody looked is found at the start.
func TestANodeDeletedWhileTheManagerIsDownIsNoticed(t *testing.T) {
	c, m := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 3)
	gone, replaced := pool.Host(0), pool.Host(1)
	on := func(name, host string) *cluster.VM {
		return c.VM(ns, name).On(host).PinnedTo(pool).Strategy("ShutdownAndRestartAfterDisable")
	}
	operator.Create(t, on("gone", gone), on("replaced", replaced))
	for _, host := range []string{gone, replaced} {
		operator.Request(t, c, host)
		operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	}
	m.end(t, c)
	for _, host := range []string{gone, replaced} {
		if err := c.Kube.CoreV1().Nodes().Delete(t.Context(), host, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.Node(t, replaced, cluster.Label("test.drydock.dev/pool", pool.Label))
	m.begin(t)
	for name, host := range map[string]string{"gone": gone, "replaced": replaced} {
		if vm := operator.AwaitForgotten(t, c, ns, name); !halted(vm) {
			t.Errorf("%s was started", name)
		}
		operator.AwaitEvent(t, c, "VirtualMachine", ns, name, "MaintenanceStaysOff", "is off", host)
	}
	node, err := c.Kube.CoreV1().Nodes().Get(t.Context(), replaced, metav1.GetOptions{})
	if err != nil || node.Spec.Unschedulable || maintenance.Engaged(node) {
		t.Errorf("the new node is cordoned or engaged (%v): %v", err, node.Annotations)
	}
}
