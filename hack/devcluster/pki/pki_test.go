package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"slices"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestAnAuthorityReadBackIssuesValidCertificates(t *testing.T) {
	dir := t.TempDir()
	made, err := NewAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	authority, err := LoadAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	config, err := authority.ClientConfig("https://127.0.0.1:6443", "jane", "crew", "dock")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(made.pem)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("the certificate is not valid: %v", err)
	}
	if leaf.Subject.CommonName != "jane" || !slices.Equal(leaf.Subject.Organization, []string{"crew", "dock"}) {
		t.Errorf("the certificate names %v", leaf.Subject)
	}
}

func TestTheServerCertificateNamesServiceAndAddresses(t *testing.T) {
	dir := t.TempDir()
	authority, err := NewAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	files, err := authority.Server(dir, "server", "kubernetes", "default", []string{"localhost"}, []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1"} {
		if err := leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

func TestAKubeconfigNeedsNoOtherFile(t *testing.T) {
	authority, err := NewAuthority(t.TempDir(), "ca")
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]func() ([]byte, error){
		"certificate": func() ([]byte, error) {
			config, err := authority.ClientConfig("https://127.0.0.1:6443", "jane")
			if err != nil {
				return nil, err
			}
			return Kubeconfig(config, "jane")
		},
		"token": func() ([]byte, error) {
			return Kubeconfig(authority.TokenConfig("https://127.0.0.1:6443", "secret"), "robot")
		},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := config()
			if err != nil {
				t.Fatal(err)
			}
			file := t.TempDir() + "/kubeconfig"
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			read, err := clientcmd.BuildConfigFromFlags("", file)
			if err != nil {
				t.Fatal(err)
			}
			if read.Host != "https://127.0.0.1:6443" || len(read.CAData) == 0 {
				t.Errorf("read back: host %q, %d bytes of CA", read.Host, len(read.CAData))
			}
			if (len(read.CertData) == 0) == (read.BearerToken == "") {
				t.Error("want either a certificate or a token")
			}
		})
	}
}
