// Package admission tells what people and controllers meet at the API server when
// Drydock's webhooks stand beside KubeVirt's own: the real manager, over TLS, with the
// match conditions that an installation has.
package admission

import (
	"context"
	"flag"
	"os"
	"sync"
	"testing"

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
	code := cluster.Main(runner{m})
	manager.Remove()
	os.Exit(code)
}

// runner takes the webhooks out of a cluster that outlives the tests: nobody would
// answer them.
type runner struct{ *testing.M }

func (r runner) Run() int {
	code := r.M.Run()
	if shared.cluster != nil {
		_ = webhooks.Remove(context.Background(), shared.cluster, webhooks.Name)
	}
	if shared.manager != nil {
		shared.manager.Kill()
	}
	if shared.kubeconfig != "" {
		_ = os.Remove(shared.kubeconfig)
	}
	return code
}

var shared struct {
	mu         sync.Mutex
	cluster    *cluster.Cluster
	manager    *manager.Manager
	kubeconfig string
}

// admitted returns the cluster with a manager whose webhooks are called.
func admitted(t testing.TB) *cluster.Cluster {
	t.Helper()
	c := cluster.For(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.manager == nil {
		launch(t, c)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the manager's log:\n%s", shared.manager.Log())
		}
	})
	return c
}

func launch(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	// The file must outlive the test that happens to be the first.
	content, err := os.ReadFile(c.Kubeconfig(t, "drydock"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp("", "drydock-*.kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	shared.kubeconfig = file.Name()
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := manager.Launch(shared.kubeconfig, "--webhook=true", "--webhook-bind-address", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shared.manager, shared.cluster = m, c
	if err := m.AwaitLeading(); err != nil {
		t.Fatal(err)
	}
	address, err := m.Address("webhook")
	if err != nil {
		t.Fatal(err)
	}
	target, err := webhooks.At(address)
	if err != nil {
		t.Fatal(err)
	}
	webhooks.Install(t, c, target)
	webhooks.AwaitTrusted(t, c)
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
