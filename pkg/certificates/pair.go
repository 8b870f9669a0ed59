package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// backdate is how far the clocks of a replica and an API server may differ: a
// certificate is valid from that long before it was made. It is never more than a tenth
// of the validity.
const backdate = time.Hour

// pair is a certificate with its key, and both as PEM.
type pair struct {
	cert            *x509.Certificate
	key             crypto.Signer
	certPEM, keyPEM []byte
}

// tls is the form in which a server presents it.
func (p *pair) tls() (*tls.Certificate, error) {
	certificate, err := tls.X509KeyPair(p.certPEM, p.keyPEM)
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	return &certificate, nil
}

var errNoSigner = errors.New("the key cannot sign")

// parsePair reads a certificate, or a chain that begins with it, and checks that the key
// is the certificate's.
func parsePair(certPEM, keyPEM []byte) (*pair, error) {
	parsed, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(parsed.Certificate[0])
	if err != nil {
		return nil, err
	}
	key, ok := parsed.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errNoSigner
	}
	return &pair{cert: leaf, key: key, certPEM: certPEM, keyPEM: keyPEM}, nil
}

// newCA makes a self-signed CA. Its name has the moment in it: two CAs of one name in a
// bundle confuse the programs that look for an issuer by name.
func newCA(now time.Time, lifetime time.Duration) (*pair, error) {
	name := pkix.Name{CommonName: fmt.Sprintf("drydock-ca@%d", now.Unix())}
	template := &x509.Certificate{
		Subject:               name,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	return sign(template, now, now.Add(lifetime), nil)
}

// newServing makes a serving certificate for the host names and addresses. It ends with
// its CA at the latest.
func newServing(now time.Time, lifetime time.Duration, hosts []string, ca *pair) (*pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: hosts[0]},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	// A common name has at most 64 bytes, and nobody looks at it any more.
	if len(hosts[0]) > 64 {
		template.Subject.CommonName = "drydock"
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	end := now.Add(lifetime)
	if end.After(ca.cert.NotAfter) {
		end = ca.cert.NotAfter
	}
	return sign(template, now, end, ca)
}

// sign makes a key and the certificate for it, signed by the CA, or by itself without
// one.
func sign(template *x509.Certificate, now, end time.Time, ca *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	template.NotBefore, template.NotAfter = now.Add(-min(backdate, end.Sub(now)/10)), end
	parent, parentKey := template, crypto.Signer(key)
	if ca != nil {
		parent, parentKey = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate just signed: %w", err)
	}
	p := &pair{cert: made, key: key}
	if p.certPEM, err = cert.EncodeCertificates(made); err != nil {
		return nil, fmt.Errorf("encoding a certificate: %w", err)
	}
	if p.keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return p, nil
}

// renewal is when a third of the validity is left.
func renewal(c *x509.Certificate) time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3)
}

// covers says whether a certificate names all the hosts.
func covers(c *x509.Certificate, hosts []string) bool {
	for _, host := range hosts {
		if c.VerifyHostname(host) != nil {
			return false
		}
	}
	return true
}

// issuedBy says whether a CA has signed the certificate.
func issuedBy(c, ca *x509.Certificate) bool { return c.CheckSignatureFrom(ca) == nil }
