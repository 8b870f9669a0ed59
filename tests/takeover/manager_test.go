package takeover

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/webhooks"
)

// replica is the one manager, with its webhooks registered.
type replica struct {
	*manager.Manager
	// t is the test that it outlives no longer than, whichever of its parts begins it anew.
	t          *testing.T
	c          *cluster.Cluster
	kubeconfig string
}

func drydock(t *testing.T, c *cluster.Cluster) *replica {
	t.Helper()
	r := &replica{t: t, c: c, kubeconfig: c.Kubeconfig(t, "drydock")}
	r.begin()
	t.Cleanup(func() {
		if err := webhooks.Remove(context.WithoutCancel(t.Context()), c, webhooks.Name); err != nil {
			t.Error(err)
		}
		r.end()
	})
	return r
}

// begin starts the manager and returns when its webhooks are called.
func (r *replica) begin() {
	t := r.t
	t.Helper()
	r.Manager = manager.Start(t, r.kubeconfig, "--harvester=takeover", "--webhook=true", "--webhook-bind-address=127.0.0.1:0")
	// As the chart has it: without Drydock Harvester goes on alone.
	webhooks.Register(t, r.c, r.Manager, admissionv1.Ignore)
}

// end kills the manager. Its webhooks stay registered, with nobody behind them, and it
// takes the lease along, which saves the next one fifteen seconds.
func (r *replica) end() {
	t := r.t
	t.Helper()
	r.Kill()
	if err := r.c.Kube.CoordinationV1().Leases("harvester-system").Delete(context.WithoutCancel(t.Context()), "drydock", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
