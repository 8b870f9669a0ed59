package takeover

import (
	"context"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
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
	r.start()
	r.passedBy()
	t.Cleanup(func() {
		if err := webhooks.Clear(context.WithoutCancel(t.Context()), c); err != nil {
			t.Error(err)
		}
		r.end()
	})
	return r
}

func (r *replica) start() {
	r.t.Helper()
	r.Manager = manager.Start(r.t, r.kubeconfig, "--harvester=takeover", "--webhook=true", "--webhook-bind-address=127.0.0.1:0")
}

// passedBy checks that a manager says loudly that its webhooks are not registered, and
// that it is over once they are.
func (r *replica) passedBy() {
	t, before := r.t, "--harvester=takeover takes nothing over: new requests for maintenance reach Harvester's controllers, or are refused, since the MutatingWebhookConfiguration drydock does not exist"
	t.Helper()
	for _, want := range []struct {
		line    string
		reason  string
		passed  bool
		metric  string
		prepare func()
	}{
		{line: before, reason: "NotTakingOver", passed: true, metric: "drydock_requests_reach_harvester 1", prepare: func() {}},
		{line: "new requests for maintenance reach Drydock again", reason: "TakingOver", metric: "drydock_requests_reach_harvester 0", prepare: r.register},
	} {
		want.prepare()
		if _, err := r.AwaitLine(func(l manager.Line) bool { return l.Message == want.line && l.Level == "warning" }); err != nil {
			t.Fatal(err)
		}
		if code, body := r.Get(t, "health", "/readyz"); code != http.StatusOK || strings.Contains(body, before) != want.passed {
			t.Errorf("/readyz answers %d %q", code, body)
		}
		if _, body := r.Get(t, "metrics", "/metrics"); !strings.Contains(body, want.metric) {
			t.Errorf("the metrics are without %s", want.metric)
		}
		operator.AwaitEvent(t, r.c, "Lease", "harvester-system", "drydock", want.reason)
	}
}

// begin starts the manager and returns when its webhooks are called.
func (r *replica) begin() {
	r.t.Helper()
	r.start()
	r.register()
}

func (r *replica) register() {
	t := r.t
	t.Helper()
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
