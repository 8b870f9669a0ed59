package certificates

import (
	"crypto/tls"
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

// NotAfter is when the certificate that is presented ends, the zero time while there is
// none.
func (k *Keeper) NotAfter() time.Time {
	if present := k.served.Load(); present != nil {
		return present.pair.cert.NotAfter
	}
	return time.Time{}
}
