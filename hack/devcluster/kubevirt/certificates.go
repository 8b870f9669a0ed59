package kubevirt

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
)

// certificateLifetime is long enough that nothing has to be rotated: that is the
// operator's work, and there is none.
const certificateLifetime = 10 * 365 * 24 * time.Hour

// certificates are KubeVirt's, as Secrets for the cluster and on disk for the processes.
type certificates struct {
	secrets []*corev1.Secret
	bundles map[string][]byte
	roots   *x509.CertPool
	dir     string
}

// newCertificates populates the Secrets in the order of trust: authorities first.
func newCertificates(secrets []*corev1.Secret, dir string) (*certificates, error) {
	c := &certificates{secrets: secrets, bundles: map[string][]byte{}, dir: dir}
	authorities := map[string]*tls.Certificate{}
	for _, secret := range secrets {
		if !isAuthority(secret) {
			continue
		}
		if err := c.populate(secret, nil); err != nil {
			return nil, err
		}
		authority, err := components.LoadCertificates(secret)
		if err != nil {
			return nil, fmt.Errorf("loading the authority %s: %w", secret.Name, err)
		}
		authorities[secret.Name] = authority
		c.bundles[secret.Name] = secret.Data[corev1.TLSCertKey]
	}
	for _, secret := range secrets {
		if isAuthority(secret) {
			continue
		}
		issuer := authorities[components.KubeVirtCASecretName]
		if secret.Name == components.VirtExportProxyCertSecretName {
			issuer = authorities[components.KubeVirtExportCASecretName]
		}
		if issuer == nil {
			return nil, fmt.Errorf("issuing %s: %w", secret.Name, errors.New("its authority is not among KubeVirt's objects"))
		}
		if err := c.populate(secret, issuer); err != nil {
			return nil, err
		}
	}
	c.roots = x509.NewCertPool()
	c.roots.AppendCertsFromPEM(c.caBundle())
	return c, nil
}

func isAuthority(secret *corev1.Secret) bool {
	return secret.Name == components.KubeVirtCASecretName || secret.Name == components.KubeVirtExportCASecretName
}

func (c *certificates) populate(secret *corev1.Secret, issuer *tls.Certificate) error {
	lifetime := &metav1.Duration{Duration: certificateLifetime}
	if err := components.PopulateSecretWithCertificate(secret, issuer, lifetime); err != nil {
		return fmt.Errorf("issuing %s: %w", secret.Name, err)
	}
	dir := filepath.Join(c.dir, secret.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("storing %s: %w", secret.Name, err)
	}
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if err := os.WriteFile(filepath.Join(dir, key), secret.Data[key], 0o600); err != nil {
			return fmt.Errorf("storing %s: %w", secret.Name, err)
		}
	}
	return nil
}

// caBundle is what the apiserver verifies virt-api with.
func (c *certificates) caBundle() []byte { return c.bundles[components.KubeVirtCASecretName] }

func (c *certificates) cert(secret string) string {
	return filepath.Join(c.dir, secret, corev1.TLSCertKey)
}

func (c *certificates) key(secret string) string {
	return filepath.Join(c.dir, secret, corev1.TLSPrivateKeyKey)
}

// fill puts the authorities' certificates into the ConfigMaps from which KubeVirt's
// parts learn whom to trust. The external one holds authorities that a user adds,
// and is read even when there are none.
func (c *certificates) fill(configMaps []*corev1.ConfigMap) []*corev1.ConfigMap {
	var out []*corev1.ConfigMap
	seen := map[string]bool{}
	for _, configMap := range configMaps {
		// KubeVirt's generator lists them twice.
		if seen[configMap.Name] {
			continue
		}
		seen[configMap.Name] = true
		configMap.Data = map[string]string{components.CABundleKey: string(c.bundles[configMap.Name])}
		out = append(out, configMap)
	}
	return out
}
