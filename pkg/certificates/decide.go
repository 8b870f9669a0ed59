package certificates

import (
	"bytes"
	"crypto/x509"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
)

// configuration is a webhook configuration as far as it matters here.
type configuration struct {
	// bundles are the CA bundles of its webhooks.
	bundles [][]byte
}

// carries says whether each of its webhooks trusts the CA.
func (c configuration) carries(ca *x509.Certificate) bool {
	for _, bundle := range c.bundles {
		if all, err := cert.ParseCertsPEM(bundle); err != nil || !contains(all, ca) {
			return false
		}
	}
	return true
}

// has says whether each of its webhooks has exactly the bundle.
func (c configuration) has(bundle []byte) bool {
	for _, present := range c.bundles {
		if !bytes.Equal(present, bundle) {
			return false
		}
	}
	return true
}

// decision is what to do about what was seen.
type decision struct {
	// secret is to be written, nil for nothing. All that follows holds once it is.
	secret *corev1.Secret
	// serving is what to present, bundle what clients are to trust.
	serving *pair
	bundle  []*x509.Certificate
	// wake is when to look again if nothing changes before.
	wake time.Time
	// complaints and done are for people.
	complaints, done []string
}

// decide looks at the Secret, nil if there is none, and at the webhook configurations
// that exist.
func (r *rules) decide(now time.Time, namespace, name string, secret *corev1.Secret, configurations []configuration, memory known) (decision, error) {
	present, complaints := read(secret, now)
	wanted, done, err := r.advance(now, present, memory, func(ca *x509.Certificate) bool {
		for _, configuration := range configurations {
			if !configuration.carries(ca) {
				return false
			}
		}
		return true
	})
	if err != nil {
		return decision{}, err
	}
	d := decision{serving: wanted.serving, bundle: wanted.bundle(), wake: r.wake(now, wanted), complaints: complaints, done: done}
	if d.secret, err = write(secret, wanted, namespace, name); err != nil {
		return decision{}, err
	}
	return d, nil
}
