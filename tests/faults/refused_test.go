package faults

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
)

// KubeVirt, or a role that is too small, refuses to take an evacuation back. The node says
// so and stays in maintenance, with all that it remembers; a request that is made
// meanwhile would cordon it again, and is dropped. Once it is allowed, leaving goes on.
func TestARefusedWithdrawalIsNamedAndLosesNothing(t *testing.T) {
	c := cluster.For(t)
	s, p := newStory(t, c), newProxy(t, c)
	host := s.pool.Host(0)
	operator.AnnotateVMI(t, c, s.ns, "moves", map[string]string{"sim.drydock.dev/migration-seconds": "never"})
	var tries atomic.Int32
	p.set(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/evacuate/cancel") {
			tries.Add(1)
			status(http.StatusForbidden, "Forbidden")(w, r, forward)
			return
		}
		forward.ServeHTTP(w, r)
	})
	manager.Start(t, p.kubeconfig, "--leader-elect=false")
	s.request(t)
	for _, name := range []string{"soon", "later", "off"} {
		c.AwaitNoVMI(t, s.ns, name)
	}
	c.AwaitVMI(t, s.ns, "moves", "it is being moved", func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmi.Status.MigrationState != nil && vmi.Status.MigrationState.StartTimestamp != nil
	})

	s.leave(t)
	refused := "evacuation of VMI " + s.ns + "/moves: injected"
	operator.AwaitMessage(t, c, host, "leaving maintenance", refused)
	s.request(t)
	before := tries.Load()
	c.Eventually(t, "it is tried again, with the new request in sight", func(context.Context) error {
		if n := tries.Load() - before; n < 2 {
			return fmt.Errorf("it was tried %d times", n)
		}
		return nil
	})
	node := c.AwaitNode(t, host, "it is there", func(*corev1.Node) bool { return true })
	if !node.Spec.Unschedulable || node.Annotations[maintenance.AnnotationNodeRecord] == "" || !strings.Contains(operator.Message(node), refused) {
		t.Errorf("the node shows %v, %s", node.Annotations, operator.Message(node))
	}
	for _, name := range []string{"soon", "later"} {
		if vm := operator.GetVM(t, c, s.ns, name); operator.Marker(vm) != host {
			t.Errorf("%s has marker %q", name, operator.Marker(vm))
		}
	}

	p.set(nil)
	s.awaitOut(t)
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceRequestDropped")
	s.checkOnce(t)
}
