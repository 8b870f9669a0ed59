package certificates

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Keys of the Secret's data. The serving certificate and the bundle have the names that
// cert-manager gives them, so that a Secret can change hands without a refused request.
const (
	keyServingCert = corev1.TLSCertKey
	keyServingKey  = corev1.TLSPrivateKeyKey
	keyBundle      = "ca.crt"
	keySignerCert  = "signer.crt"
	keySignerKey   = "signer.key"
	keyNextCert    = "next.crt"
	keyNextKey     = "next.key"
)

// state is what the Secret holds, as far as it can be used.
type state struct {
	// signer is the CA that signs, next the one that is being introduced.
	signer, next *pair
	// trusted are the other CAs of the bundle.
	trusted []*x509.Certificate
	serving *pair
	// published is since when every configuration has been seen to carry next, promoted
	// since when signer signs. Zero: not yet, not known.
	published, promoted time.Time
	// order is what an operator wants to be rotated at once.
	order string
}

// bundle is every CA that clients are to trust, the one that signs first.
func (s *state) bundle() []*x509.Certificate {
	var all []*x509.Certificate
	for _, ca := range []*pair{s.signer, s.next} {
		if ca != nil {
			all = append(all, ca.cert)
		}
	}
	return append(all, s.trusted...)
}

// read returns what is usable in the Secret, and a sentence about each thing that is
// there and is not.
func read(secret *corev1.Secret, now time.Time) (s state, complaints []string) {
	if secret == nil {
		return state{}, []string{"the Secret does not exist"}
	}
	pairOf := func(what, certKey, keyKey string, ca bool) *pair {
		p, complaint := readPair(secret.Data[certKey], secret.Data[keyKey], now, ca)
		if complaint != "" {
			complaints = append(complaints, fmt.Sprintf("%s (%s, %s): %s", what, certKey, keyKey, complaint))
		}
		return p
	}
	s.serving = pairOf("serving certificate", keyServingCert, keyServingKey, false)
	s.signer = pairOf("CA", keySignerCert, keySignerKey, true)
	if len(secret.Data[keyNextCert])+len(secret.Data[keyNextKey]) > 0 {
		s.next = pairOf("next CA", keyNextCert, keyNextKey, true)
	}
	bundle, err := cert.ParseCertsPEM(secret.Data[keyBundle])
	if err != nil {
		complaints = append(complaints, fmt.Sprintf("CA bundle (%s): %v", keyBundle, err))
	}
	known := s.bundle()
	for _, ca := range bundle {
		if ca.IsCA && now.Before(ca.NotAfter) && !contains(known, ca) {
			s.trusted, known = append(s.trusted, ca), append(known, ca)
		}
	}
	s.order = secret.Annotations[maintenance.AnnotationRotate]
	s.published = moment(secret, maintenance.AnnotationCAPublished)
	s.promoted = moment(secret, maintenance.AnnotationCAPromoted)
	return s, complaints
}

// readPair does not ask whether a certificate is valid yet: a clock that is behind could
// make no better one.
func readPair(certPEM, keyPEM []byte, now time.Time, ca bool) (p *pair, complaint string) {
	switch {
	case len(certPEM) == 0 && len(keyPEM) == 0:
		return nil, "missing"
	case len(certPEM) == 0:
		return nil, "a key without its certificate"
	case len(keyPEM) == 0:
		return nil, "a certificate without its key"
	}
	p, err := parsePair(certPEM, keyPEM)
	switch {
	case err != nil:
		return nil, err.Error()
	case !now.Before(p.cert.NotAfter):
		return nil, "expired at " + p.cert.NotAfter.Format(time.RFC3339)
	case ca && (!p.cert.IsCA || !bytes.Equal(p.cert.RawIssuer, p.cert.RawSubject)):
		return nil, fmt.Sprintf("%q is not a self-signed CA", p.cert.Subject)
	}
	return p, ""
}

func moment(secret *corev1.Secret, annotation string) time.Time {
	at, err := time.Parse(time.RFC3339, secret.Annotations[annotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

func contains(all []*x509.Certificate, one *x509.Certificate) bool {
	return slices.ContainsFunc(all, one.Equal)
}

// write returns the Secret with that state, or nil when it says so already. What others
// have put there is kept.
func write(old *corev1.Secret, s state, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{
		// The labels are those by which a person finds out whose it is.
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/name": "drydock", "app.kubernetes.io/managed-by": "drydock"}},
		Type:       corev1.SecretTypeTLS,
	}
	if old != nil {
		secret = old.DeepCopy()
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for _, stored := range []struct {
		certKey, keyKey string
		pair            *pair
	}{{keyServingCert, keyServingKey, s.serving}, {keySignerCert, keySignerKey, s.signer}, {keyNextCert, keyNextKey, s.next}} {
		delete(secret.Data, stored.certKey)
		delete(secret.Data, stored.keyKey)
		if stored.pair != nil {
			secret.Data[stored.certKey], secret.Data[stored.keyKey] = stored.pair.certPEM, stored.pair.keyPEM
		}
	}
	bundle, err := cert.EncodeCertificates(s.bundle()...)
	if err != nil {
		return nil, fmt.Errorf("encoding the CA bundle: %w", err)
	}
	secret.Data[keyBundle] = bundle
	annotate(secret, maintenance.AnnotationRotate, s.order)
	annotate(secret, maintenance.AnnotationCAPublished, format(s.published))
	annotate(secret, maintenance.AnnotationCAPromoted, format(s.promoted))
	if old != nil && maps.EqualFunc(old.Data, secret.Data, bytes.Equal) && maps.Equal(old.Annotations, secret.Annotations) {
		return nil, nil // there is nothing to write
	}
	return secret, nil
}

func format(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

func annotate(secret *corev1.Secret, key, value string) {
	if value == "" {
		delete(secret.Annotations, key)
		return
	}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[key] = value
}
