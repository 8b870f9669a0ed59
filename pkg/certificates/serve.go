package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

var errNoCertificate = errors.New("there is no serving certificate yet")

// serve presents the certificate from the next connection on.
func (k *Keeper) serve(p *pair) error {
	if present := k.served.Load(); present != nil && present.pair.cert.Equal(p.cert) {
		return nil
	}
	certificate, err := p.tls()
	if err != nil {
		return err
	}
	k.served.Store(&served{certificate: certificate, pair: p})
	k.log.WithField("until", p.cert.NotAfter.Format(time.RFC3339)).WithField("issuer", p.cert.Issuer.CommonName).
		WithField("serial", p.cert.SerialNumber.String()).Info("the serving certificate is loaded")
	if changed := k.onServed.Load(); changed != nil {
		(*changed)()
	}
	return nil
}

// TLSConfig is for servers. The certificate that they present is always the present one.
func (k *Keeper) TLSConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if present := k.served.Load(); present != nil {
				return present.certificate, nil
			}
			return nil, errNoCertificate
		},
	}
}

// Waiting says what a server that is to present the certificate waits for, "" when it
// can.
func (k *Keeper) Waiting() string {
	if k.served.Load() != nil {
		return ""
	}
	return fmt.Sprintf("the serving certificate (Secret %s/%s)", k.options.Namespace, k.options.Secret)
}

// OnServed has changed called, which must not block, when another certificate is presented.
func (k *Keeper) OnServed(changed func()) { k.onServed.Store(&changed) }

// TrustedBy reports that whoever is given a bundle trusts the certificate that is
// presented, with the chain that comes with it.
func (k *Keeper) TrustedBy(bundle []byte) bool {
	present := k.served.Load()
	if present == nil {
		return false
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, der := range present.certificate.Certificate[1:] {
		if link, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(link)
		}
	}
	_, err := present.pair.cert.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: k.options.Clock.Now()})
	return err == nil
}

// NotAfter is when the certificate that is presented ends, the zero time while there is
// none.
func (k *Keeper) NotAfter() time.Time {
	if present := k.served.Load(); present != nil {
		return present.pair.cert.NotAfter
	}
	return time.Time{}
}
