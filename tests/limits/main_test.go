// Package limits holds stories that need a manager of their own: one with a drain limit
// or another force policy, or one to be killed, which costs other tests the events that
// it had not sent yet. Each test has a manager of its own, so they run
// one after the other, on a cluster that nobody else is using.
package limits

import (
	"context"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

func TestMain(m *testing.M) {
	code := cluster.Main(m)
	manager.Remove()
	os.Exit(code)
}

// drydock returns the cluster with a manager of these flags. Another may be started
// in its place, see succeed.
func drydock(t *testing.T, flags ...string) (*cluster.Cluster, *running) {
	t.Helper()
	c := cluster.For(t)
	r := &running{kubeconfig: c.Kubeconfig(t, "drydock"), flags: flags}
	r.begin(t)
	t.Cleanup(func() { r.end(t, c) })
	return c, r
}

type running struct {
	*manager.Manager
	kubeconfig string
	flags      []string
}

// end takes the lease along, which saves the next manager the fifteen seconds until it
// expires.
func (r *running) end(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	r.Kill()
	if err := c.Kube.CoordinationV1().Leases("harvester-system").Delete(context.Background(), "drydock", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// succeed kills the manager and starts another.
func (r *running) succeed(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	r.end(t, c)
	r.begin(t)
}

func (r *running) begin(t *testing.T) {
	t.Helper()
	r.Manager = manager.Start(t, r.kubeconfig, r.flags...)
}

func halted(vm *virtv1.VirtualMachine) bool {
	return vm.Spec.RunStrategy != nil && *vm.Spec.RunStrategy == virtv1.RunStrategyHalted
}
