// Package serving tells how the manager serves TLS: what happens to requests while
// certificates are replaced, lost or expired, and while replicas come and go. All its
// webhooks refuse when nobody answers, or a refused request would not show.
package serving

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/webhooks"
)

func TestMain(m *testing.M) {
	code := cluster.Main(m)
	manager.Remove()
	os.Exit(code)
}

const (
	namespace = "harvester-system"
	secret    = "drydock-tls"
)

// lifetimes make a rotation a matter of seconds, with a settling time that is still long
// beside what a busy API server's copies lag behind.
const lifetimes = "ca=20m,serving=10m,settle=3s,retire=3s"

// clean begins without a Secret, and leaves neither it nor the webhooks behind.
func clean(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.For(t)
	sweep := func() {
		// In cleanups the test's own context has ended.
		ctx := context.Background()
		if err := webhooks.Clear(ctx, c); err != nil {
			t.Error(err)
		}
		if err := c.Kube.CoreV1().Secrets(namespace).Delete(ctx, secret, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	sweep()
	t.Cleanup(sweep)
	return c
}

// replicas starts n managers that serve the webhooks, and returns when all can.
func replicas(t *testing.T, c *cluster.Cluster, n int, flags ...string) []*manager.Manager {
	t.Helper()
	kubeconfig := c.Kubeconfig(t, "drydock")
	var all []*manager.Manager
	for range n {
		m, err := manager.Launch(kubeconfig, append([]string{"--webhook", "--tls-lifetimes", lifetimes, "--shutdown-delay", "4s"}, flags...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			m.Kill()
			if t.Failed() {
				t.Logf("the log of manager %d:\n%s", m.PID(), m.Log())
			}
		})
		all = append(all, m)
	}
	for _, m := range all {
		if _, err := m.AwaitLine(func(l manager.Line) bool { return l.Message == "ready" }); err != nil {
			t.Fatal(err)
		}
		loaded(t, m, 1)
	}
	return all
}

// loaded waits until a manager has loaded its n-th certificate.
func loaded(t *testing.T, m *manager.Manager, n int) {
	t.Helper()
	if _, err := m.AwaitTimes(n, func(l manager.Line) bool { return l.Message == "the serving certificate is loaded" }); err != nil {
		t.Fatal(err)
	}
}

// present returns the Secret.
func present(t *testing.T, c *cluster.Cluster) *corev1.Secret {
	t.Helper()
	s, err := c.Kube.CoreV1().Secrets(namespace).Get(t.Context(), secret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// order asks for a rotation, as docs/webhooks.md says.
func order(t *testing.T, c *cluster.Cluster, what string) {
	t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"drydock.dev/rotate":"` + what + `"}}}`)
	if _, err := c.Kube.CoreV1().Secrets(namespace).Patch(t.Context(), secret, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// certificatesIn reads PEM.
func certificatesIn(t *testing.T, content []byte) []*x509.Certificate {
	t.Helper()
	var all []*x509.Certificate
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}
