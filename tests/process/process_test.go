// Package process tests the manager as a process: how it starts, says that it is ready,
// ends, and does without what is not installed.
package process

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

func TestMain(m *testing.M) {
	code := cluster.Main(m)
	manager.Remove()
	os.Exit(code)
}

func TestItServesHealthReadinessAndMetrics(t *testing.T) {
	c := cluster.For(t)
	m := manager.Start(t, c.Kubeconfig(t, "drydock"))
	for _, page := range []struct{ what, path, holds string }{
		{"health", "/healthz", "ok"}, {"health", "/readyz", "ok"}, {"metrics", "/metrics", "drydock_leader 1"}, {"metrics", "/metrics", "drydock_build_info"},
	} {
		if code, body := m.Get(t, page.what, page.path); code != http.StatusOK || !strings.Contains(body, page.holds) {
			t.Errorf("%s answers %d without %q:\n%s", page.path, code, page.holds, body)
		}
	}
}

// Given back on SIGTERM, the lease lets the next replica lead at once. That it was given back
// is what makes it ask: here it would otherwise do so in an hour.
func TestATerminatedLeaderHandsOverAtOnce(t *testing.T) {
	c := cluster.For(t)
	kubeconfig := c.Kubeconfig(t, "drydock")
	patient := []string{"--leader-lease-duration=3h", "--leader-renew-deadline=2h", "--leader-retry-period=1h"}
	// Another test's manager may have been killed with the lease in its hands, and nobody
	// must wait for hours for that of these.
	forgetLease(t, c)
	t.Cleanup(func() { forgetLease(t, c) })
	first := manager.Start(t, kubeconfig, patient...)
	second, err := manager.Launch(kubeconfig, patient...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		second.Kill()
		if t.Failed() {
			t.Logf("the second manager's log:\n%s", second.Log())
		}
	})
	if _, err := second.AwaitLine(func(l manager.Line) bool { return l.Message == "ready" }); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	took, err := first.Terminate()
	if err != nil {
		t.Errorf("the manager ended with %v", err)
	}
	if err := second.AwaitLeading(); err != nil {
		t.Fatal(err)
	}
	t.Logf("it ended after %s, another led after %s", took, time.Since(began))
	lease, err := c.Kube.CoordinationV1().Leases("harvester-system").Get(t.Context(), "drydock", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.LeaseTransitions == nil || *lease.Spec.LeaseTransitions == 0 {
		t.Error("the lease has not changed hands")
	}
}

func forgetLease(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	err := c.Kube.CoordinationV1().Leases("harvester-system").Delete(context.WithoutCancel(t.Context()), "drydock", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func TestBadFlagsAreNamed(t *testing.T) {
	c := cluster.For(t)
	kubeconfig := c.Kubeconfig(t, "drydock")
	for flag, want := range map[string]string{
		"--force-policy=maybe":  `--force-policy: "maybe" is neither "stay-off" nor "honor-strategy"`,
		"--drain-timeout=-1s":   "--drain-timeout: -1s is negative",
		"--log-level=loud":      "--log-level",
		"--namespace=":          "--namespace: must not be empty",
		"--health-bind-address": "health-bind-address",
		"--no-such-flag":        "no-such-flag",
	} {
		t.Run(flag, func(t *testing.T) {
			m, err := manager.Launch(kubeconfig, flag)
			if err != nil {
				t.Fatal(err)
			}
			<-m.Ended()
			if _, err := m.AwaitLine(func(l manager.Line) bool { return strings.Contains(l.Raw, want) }); err != nil {
				t.Error(err)
			}
		})
	}
}

// What other systems bring comes and goes while Drydock runs.
func TestLonghornComesAndGoes(t *testing.T) {
	c := cluster.For(t)
	m := manager.Start(t, c.Kubeconfig(t, "drydock"))
	await := func(n int, message string) {
		t.Helper()
		_, err := m.AwaitTimes(n, func(l manager.Line) bool { return l.Message == message })
		if err != nil {
			t.Fatal(err)
		}
	}
	await(1, "volumes are checked")
	for n, name := range []string{"replicas.longhorn.io", "settings.longhorn.io"} {
		restore := remove(t, c, name)
		await(n+1, "volumes are not checked any more")
		restore()
		await(n+2, "volumes are checked")
	}
}

// The last of this package: VMs go with their definition.
func TestWithoutKubeVirtItWaits(t *testing.T) {
	c := cluster.For(t)
	restore := remove(t, c, "virtualmachineinstancemigrations.kubevirt.io")
	m, err := manager.Launch(c.Kubeconfig(t, "drydock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Kill)
	if _, err := m.AwaitLine(func(l manager.Line) bool {
		return l.Message == "waiting for KubeVirt's CustomResourceDefinitions"
	}); err != nil {
		t.Fatal(err)
	}
	if code, body := m.Get(t, "health", "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "KubeVirt") {
		t.Errorf("/readyz answers %d %q", code, body)
	}
	if code, _ := m.Get(t, "health", "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz answers %d", code)
	}
	restore()
	if err := m.AwaitLeading(); err != nil {
		t.Fatal(err)
	}
	if code, body := m.Get(t, "health", "/readyz"); code != http.StatusOK {
		t.Errorf("/readyz answers %d %q", code, body)
	}
}

// remove deletes a CustomResourceDefinition; restore makes it again.
func remove(t *testing.T, c *cluster.Cluster, name string) (restore func()) {
	t.Helper()
	client, err := apiextensions.NewForConfig(c.Admin)
	if err != nil {
		t.Fatal(err)
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	crd, err := crds.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := crds.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: crd.Labels, Annotations: crd.Annotations}, Spec: crd.Spec}
	return func() {
		t.Helper()
		for {
			_, err := crds.Create(t.Context(), again, metav1.CreateOptions{})
			if err == nil {
				return
			}
			if !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
			// The old one is still finalized away.
			select {
			case <-t.Context().Done():
				t.Fatal(err)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}
