// Package api tells what callers of the API meet: the real manager behind TLS, with tokens
// and certificates of a real control plane, beside the webhooks of an installation.
package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"net/http"
	"os"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

var shared = manager.Shared{Flags: []string{"--api=true", "--webhook=true"}}

// house is a cluster with a manager that serves.
type house struct {
	*cluster.Cluster
	manager   *manager.Manager
	address   string
	authority *x509.CertPool
}

func serving(t *testing.T) *house {
	t.Helper()
	c := cluster.For(t)
	m := shared.Of(t, c, func(m *manager.Manager) {
		// Until then every check of a node is answered with 503.
		if _, err := m.AwaitLine(func(l manager.Line) bool { return l.Message == "volumes are checked" }); err != nil {
			t.Fatal(err)
		}
		webhooks.Register(t, c, m, admissionregistrationv1.Fail)
	})
	address, err := m.Address("api")
	if err != nil {
		t.Fatal(err)
	}
	return &house{Cluster: c, manager: m, address: address, authority: authority(t, c)}
}

// authority is what callers trust: the CA that the manager publishes.
func authority(t *testing.T, c *cluster.Cluster) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	c.Eventually(t, "the CA is published", func(ctx context.Context) error {
		secret, err := c.Kube.CoreV1().Secrets("harvester-system").Get(ctx, "drydock-tls", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !pool.AppendCertsFromPEM(secret.Data[corev1.ServiceAccountRootCAKey]) {
			return errors.New("the Secret has none yet")
		}
		return nil
	})
	return pool
}

// client reaches the API over TLS, with a certificate or without.
func (h *house) client(t *testing.T, certificates ...tls.Certificate) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: h.authority, ServerName: "drydock-api.harvester-system.svc", Certificates: certificates}, MaxIdleConnsPerHost: 512}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
