package serving

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/webhooks"
)

const hour = time.Hour

func expired(c *x509.Certificate) bool { return time.Now().After(c.NotAfter) }

// issuer is somebody else's CA.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func authority(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "somebody-else"}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{cert: made, key: key, pem: encoded(t, made)}
}

func encoded(t *testing.T, c *x509.Certificate) []byte {
	t.Helper()
	content, err := cert.EncodeCertificates(c)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// issue returns the data of a Secret, as cert-manager writes it.
func (i *issuer) issue(t *testing.T, validity time.Duration) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "drydock"},
		NotBefore: time.Now().Add(-hour), NotAfter: time.Now().Add(validity),
		DNSNames: []string{"drydock-webhook." + namespace + ".svc"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.cert, key.Public(), i.key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{corev1.TLSCertKey: encoded(t, made), corev1.TLSPrivateKeyKey: keyPEM, "ca.crt": i.pem}
}

// store writes the Secret, as cert-manager would.
func store(t *testing.T, c *cluster.Cluster, data map[string][]byte) {
	t.Helper()
	secrets := c.Kube.CoreV1().Secrets(namespace)
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}, Type: corev1.SecretTypeTLS, Data: data}
	_, err := secrets.Create(t.Context(), object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), object, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// trust writes a CA into the webhook configurations, as cert-manager's injector would,
// and waits until the API server has learnt of it.
func trust(t *testing.T, c *cluster.Cluster, bundle []byte) {
	t.Helper()
	type patched struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value []byte `json:"value"`
	}
	patch := func(hooks int, send func(context.Context, []byte) error) {
		var operations []patched
		for n := range hooks {
			operations = append(operations, patched{"add", "/webhooks/" + big.NewInt(int64(n)).String() + "/clientConfig/caBundle", bundle})
		}
		raw, err := json.Marshal(operations)
		if err != nil {
			t.Fatal(err)
		}
		if err := send(t.Context(), raw); err != nil {
			t.Fatal(err)
		}
	}
	admission := c.Kube.AdmissionregistrationV1()
	mutating, err := admission.MutatingWebhookConfigurations().Get(t.Context(), webhooks.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	validating, err := admission.ValidatingWebhookConfigurations().Get(t.Context(), webhooks.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch(len(mutating.Webhooks), func(ctx context.Context, raw []byte) error {
		_, err := admission.MutatingWebhookConfigurations().Patch(ctx, webhooks.Name, types.JSONPatchType, raw, metav1.PatchOptions{})
		return err
	})
	patch(len(validating.Webhooks), func(ctx context.Context, raw []byte) error {
		_, err := admission.ValidatingWebhookConfigurations().Patch(ctx, webhooks.Name, types.JSONPatchType, raw, metav1.PatchOptions{})
		return err
	})
	webhooks.AwaitTrusted(t, c)
}
