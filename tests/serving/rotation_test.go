package serving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/webhooks"
)

// underLoad starts two replicas behind one Service, with a stream of writes and one of
// new connections.
func underLoad(t *testing.T) (c *cluster.Cluster, managers []*manager.Manager, writes, connections *stream) {
	t.Helper()
	c = clean(t)
	managers = replicas(t, c, 2)
	webhooks.Install(t, c, webhooks.Behind(t, c, managers...))
	webhooks.AwaitTrusted(t, c)
	writes, connections = begin(t, c), dial(t, c, managers...)
	writes.goesOn(t, c, 20)
	connections.goesOn(t, c, 20)
	return c, managers, writes, connections
}

func TestNothingIsRefusedWhileCertificatesAreReplaced(t *testing.T) {
	c, managers, writes, connections := underLoad(t)
	first := present(t, c)

	order(t, c, "serving")
	for _, m := range managers {
		loaded(t, m, 2)
	}
	writes.goesOn(t, c, 20)
	second := present(t, c)
	if string(second.Data["tls.crt"]) == string(first.Data["tls.crt"]) || string(second.Data["ca.crt"]) != string(first.Data["ca.crt"]) || second.Annotations["drydock.dev/rotate"] != "" {
		t.Errorf("after the order to replace the serving certificate: %v", second)
	}

	order(t, c, "ca")
	for _, m := range managers {
		loaded(t, m, 3)
	}
	awaitOneCA(t, c, first.Data["ca.crt"])
	writes.goesOn(t, c, 20)
	connections.goesOn(t, c, 20)
	writes.none(t)
	connections.none(t)
}

// awaitOneCA waits until the bundle has one CA, which is not the old one, and the webhook
// configurations have the bundle.
func awaitOneCA(t *testing.T, c *cluster.Cluster, old []byte) {
	t.Helper()
	c.Eventually(t, "the CA is replaced", func(ctx context.Context) error {
		s, err := c.Kube.CoreV1().Secrets(namespace).Get(ctx, secret, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if all := certificatesIn(t, s.Data["ca.crt"]); len(all) != 1 || string(s.Data["ca.crt"]) == string(old) {
			return fmt.Errorf("%w: the bundle has %d CAs", errWaiting, len(all))
		}
		configuration, err := c.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, webhooks.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, hook := range configuration.Webhooks {
			if string(hook.ClientConfig.CABundle) != string(s.Data["ca.crt"]) {
				return fmt.Errorf("%w: %s has another bundle", errWaiting, hook.Name)
			}
		}
		return nil
	})
}

var errWaiting = errors.New("not yet")

func TestNothingIsRefusedWhenTheSecretIsDeleted(t *testing.T) {
	c, _, writes, connections := underLoad(t)
	old := present(t, c).Data["ca.crt"]
	if err := c.Kube.CoreV1().Secrets(namespace).Delete(t.Context(), secret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitOneCA(t, c, old)
	writes.goesOn(t, c, 20)
	connections.goesOn(t, c, 20)
	writes.none(t)
	connections.none(t)
}

func TestNothingIsRefusedWhenTheSecretIsDamaged(t *testing.T) {
	c, managers, writes, connections := underLoad(t)
	for n, damage := range []string{
		`{"data":{"tls.key":"Z2FyYmFnZQ=="}}`,
		`{"data":{"tls.crt":"","tls.key":"","signer.key":"Z2FyYmFnZQ==","ca.crt":"Z2FyYmFnZQ=="}}`,
	} {
		old := present(t, c)
		if _, err := c.Kube.CoreV1().Secrets(namespace).Patch(t.Context(), secret, types.MergePatchType, []byte(damage), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, m := range managers {
			loaded(t, m, 2+n)
		}
		if n == 1 {
			awaitOneCA(t, c, old.Data["ca.crt"])
		}
		writes.goesOn(t, c, 20)
	}
	writes.none(t)
	connections.none(t)
}

// Several replicas that find nothing agree on one CA.
func TestReplicasThatStartTogetherShareOneCertificate(t *testing.T) {
	c := clean(t)
	managers := replicas(t, c, 3)
	s := present(t, c)
	for _, m := range managers {
		address, err := m.Address("webhook")
		if err != nil {
			t.Fatal(err)
		}
		c.Eventually(t, "it presents the Secret's certificate", func(ctx context.Context) error {
			return handshake(ctx, address, s.Data["ca.crt"])
		})
	}
	if after := present(t, c); after.ResourceVersion != s.ResourceVersion {
		t.Error("the Secret is still being written")
	}
}

// Nobody was there while the certificate expired.
func TestAnExpiredCertificateIsReplacedAtTheStart(t *testing.T) {
	c := clean(t)
	m := replicas(t, c, 1, "--tls-lifetimes", "ca=20m,serving=1s")[0]
	webhooks.Install(t, c, webhooks.Behind(t, c, m))
	webhooks.AwaitTrusted(t, c)
	m.Kill()
	// The last one that was written ends within a second.
	old := certificatesIn(t, present(t, c).Data["tls.crt"])[0]
	c.Eventually(t, "the certificate expires", func(context.Context) error {
		if !expired(old) {
			return errWaiting
		}
		return nil
	})
	m = replicas(t, c, 1)[0]
	webhooks.Behind(t, c, m)
	s := begin(t, c)
	s.goesOn(t, c, 20)
	s.none(t)
}

// Somebody else keeps the Secret: it is read and never written, and an expired
// certificate is as bad as none.
func TestASecretOfSomebodyElseIsFollowed(t *testing.T) {
	c := clean(t)
	m, err := manager.Launch(c.Kubeconfig(t, "drydock"), "--webhook", "--tls-source=secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Kill()
		if t.Failed() {
			t.Logf("the manager's log:\n%s", m.Log())
		}
	})
	if _, err := m.AwaitLine(func(l manager.Line) bool { return l.Message == "ready" }); err != nil {
		t.Fatal(err)
	}
	if code, body := m.Get(t, "health", "/readyz"); code != 503 || body != "waiting for the serving certificate (Secret harvester-system/drydock-tls)\n" {
		t.Errorf("without the Secret /readyz answers %d %q", code, body)
	}
	if _, err := c.Kube.CoreV1().Secrets(namespace).Get(t.Context(), secret, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret: %v", err)
	}
	ca := authority(t)
	store(t, c, ca.issue(t, hour))
	loaded(t, m, 1)
	if code, body := m.Get(t, "health", "/readyz"); code != 200 {
		t.Errorf("with the Secret /readyz answers %d %q", code, body)
	}
	webhooks.Install(t, c, webhooks.Behind(t, c, m))
	trust(t, c, ca.pem)
	writes, connections := begin(t, c), dial(t, c, m)
	writes.goesOn(t, c, 10)
	connections.goesOn(t, c, 10)
	renewed := ca.issue(t, hour)
	store(t, c, renewed)
	loaded(t, m, 2)
	writes.goesOn(t, c, 10)
	connections.goesOn(t, c, 10)
	writes.none(t)
	connections.none(t)
	configuration, err := c.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), webhooks.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if string(configuration.Webhooks[0].ClientConfig.CABundle) != string(ca.pem) || !maps.EqualFunc(present(t, c).Data, renewed, bytes.Equal) {
		t.Error("what somebody else keeps was changed")
	}
}
