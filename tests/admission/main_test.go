// Package admission tells what people and controllers meet at the API server when
// Drydock's webhooks stand beside KubeVirt's own: the real manager, over TLS, with the
// match conditions that an installation has.
package admission

import (
	"flag"
	"os"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"
	virtclient "kubevirt.io/client-go/kubevirt"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/webhooks"
)

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	code := cluster.Main(webhooks.Runner{M: m, Shared: &shared})
	manager.Remove()
	os.Exit(code)
}

var shared = manager.Shared{Flags: []string{"--webhook=true"}}

// admitted returns the cluster with a manager whose webhooks are called.
func admitted(t testing.TB) *cluster.Cluster {
	t.Helper()
	c := cluster.For(t)
	replica(t, c)
	return c
}

func replica(t testing.TB, c *cluster.Cluster) *manager.Manager {
	t.Helper()
	return shared.Of(t, c, func(m *manager.Manager) { webhooks.Register(t, c, m, admissionregistrationv1.Fail) })
}

// listening is a client that keeps the warnings it is given.
type listening struct {
	virtclient.Interface
	mu       sync.Mutex
	warnings []string
}

// HandleWarningHeader keeps a warning.
func (l *listening) HandleWarningHeader(_ int, _, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.warnings = append(l.warnings, text)
}

// heard returns the warnings since the last call.
func (l *listening) heard() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.warnings
	l.warnings = nil
	return heard
}

func listen(t *testing.T, c *cluster.Cluster) *listening {
	t.Helper()
	l := &listening{}
	config := rest.CopyConfig(c.Admin)
	config.WarningHandler = l
	client, err := virtclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	l.Interface = client
	return l
}
