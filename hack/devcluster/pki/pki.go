// Package pki issues the certificates of a dev cluster.
package pki

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"kubevirt.io/kubevirt/pkg/certificates/triple"
	"kubevirt.io/kubevirt/pkg/certificates/triple/cert"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// lifetime is long enough that nobody's forgotten cluster breaks for this reason.
const lifetime = 10 * 365 * 24 * time.Hour

// Authority is a certificate authority that lives in two files.
type Authority struct {
	// CertFile and KeyFile are what programs are given.
	CertFile, KeyFile string

	pair *triple.KeyPair
	pem  []byte
}

// NewAuthority creates an authority in dir/name.{crt,key}.
func NewAuthority(dir, name string) (*Authority, error) {
	pair, err := triple.NewCA(name, lifetime)
	if err != nil {
		return nil, fmt.Errorf("creating the authority %s: %w", name, err)
	}
	files, err := write(dir, name, pair)
	if err != nil {
		return nil, err
	}
	return &Authority{CertFile: files.Cert, KeyFile: files.Key, pair: pair, pem: cert.EncodeCertPEM(pair.Cert)}, nil
}

// LoadAuthority reads an authority that NewAuthority wrote.
func LoadAuthority(dir, name string) (*Authority, error) {
	a := &Authority{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
	var err error
	if a.pem, err = os.ReadFile(a.CertFile); err != nil {
		return nil, fmt.Errorf("reading an authority: %w", err)
	}
	certs, err := cert.ParseCertsPEM(a.pem)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", a.CertFile, err)
	}
	keyPEM, err := os.ReadFile(a.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading an authority: %w", err)
	}
	key, err := cert.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", a.KeyFile, err)
	}
	ecKey, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("reading %s: %w", a.KeyFile, errors.New("not an elliptic curve key"))
	}
	a.pair = &triple.KeyPair{Key: ecKey, Cert: certs[0]}
	return a, nil
}

// Files are a certificate and its key on disk.
type Files struct{ Cert, Key string }

// Server issues a certificate for a Service by all its names, for hostnames, and
// for ips, in dir/file.{crt,key}.
func (a *Authority) Server(dir, file, service, namespace string, hostnames, ips []string) (Files, error) {
	pair, err := triple.NewServerKeyPair(a.pair, file, service, namespace, "cluster.local", ips, hostnames, lifetime)
	if err != nil {
		return Files{}, fmt.Errorf("issuing the server certificate %s: %w", file, err)
	}
	return write(dir, file, pair)
}

// Client issues a client certificate for a user in dir/file.{crt,key}.
func (a *Authority) Client(dir, file, user string, groups ...string) (Files, error) {
	pair, err := triple.NewClientKeyPair(a.pair, user, groups, lifetime)
	if err != nil {
		return Files{}, fmt.Errorf("issuing a certificate for %s: %w", user, err)
	}
	return write(dir, file, pair)
}

// ClientConfig issues a client certificate that is kept in memory only.
func (a *Authority) ClientConfig(server, user string, groups ...string) (*rest.Config, error) {
	pair, err := triple.NewClientKeyPair(a.pair, user, groups, lifetime)
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate for %s: %w", user, err)
	}
	config := a.serverConfig(server)
	config.CertData, config.KeyData = cert.EncodeCertPEM(pair.Cert), cert.EncodePrivateKeyPEM(pair.Key)
	return config, nil
}

// TokenConfig is a client that names itself with a token.
func (a *Authority) TokenConfig(server, token string) *rest.Config {
	config := a.serverConfig(server)
	config.BearerToken = token
	return config
}

func (a *Authority) serverConfig(server string) *rest.Config {
	return &rest.Config{
		Host:            server,
		TLSClientConfig: rest.TLSClientConfig{CAData: a.pem},
		// The apiserver's priority and fairness is limit enough on loopback;
		// client-go's five requests a second would dominate every boot.
		QPS: -1,
		// The CRDs' unusual formats and old versions are KubeVirt's and Longhorn's
		// business.
		WarningHandler: rest.NoWarnings{},
	}
}

// NewSigningKey writes the key that signs service account tokens.
func NewSigningKey(file string) error {
	key, err := cert.NewECDSAPrivateKey()
	if err != nil {
		return fmt.Errorf("creating the service account key: %w", err)
	}
	return os.WriteFile(file, cert.EncodePrivateKeyPEM(key), 0o600)
}

// Kubeconfig renders a client configuration as a file that needs no other file.
func Kubeconfig(config *rest.Config, user string) ([]byte, error) {
	const cluster = "devcluster"
	out := clientcmdapi.NewConfig()
	out.Clusters[cluster] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	out.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	out.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user}
	out.CurrentContext = cluster
	content, err := clientcmd.Write(*out)
	if err != nil {
		return nil, fmt.Errorf("rendering the kubeconfig of %s: %w", user, err)
	}
	return content, nil
}

func write(dir, name string, pair *triple.KeyPair) (Files, error) {
	files := Files{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key")}
	if err := os.WriteFile(files.Cert, cert.EncodeCertPEM(pair.Cert), 0o600); err != nil {
		return Files{}, fmt.Errorf("writing a certificate: %w", err)
	}
	if err := os.WriteFile(files.Key, cert.EncodePrivateKeyPEM(pair.Key), 0o600); err != nil {
		return Files{}, fmt.Errorf("writing a key: %w", err)
	}
	return files, nil
}
