package controlplane

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/hack/devcluster/pki"
)

// ClusterCA is the name of the authority that issues client certificates; its
// files lie in the state directory's pki folder.
const ClusterCA = "ca"

// serviceRange and the first address in it, which the apiserver's certificate must name.
const (
	serviceRange   = "10.96.0.0/16"
	firstServiceIP = "10.96.0.1"
)

// Identity is the cluster's cryptographic material on disk.
type Identity struct {
	CA         *pki.Authority
	frontProxy *pki.Authority
	server     pki.Files
	aggregator pki.Files
	signingKey string
}

// NewIdentity creates authorities, certificates and keys in dir.
func NewIdentity(dir string) (*Identity, error) {
	ca, err := pki.NewAuthority(dir, ClusterCA)
	if err != nil {
		return nil, err
	}
	// The authority of the aggregator must not be the clients': whoever holds a
	// certificate of it may name any user in headers.
	frontProxy, err := pki.NewAuthority(dir, "front-proxy-ca")
	if err != nil {
		return nil, err
	}
	id := &Identity{CA: ca, frontProxy: frontProxy, signingKey: filepath.Join(dir, "service-accounts.key")}
	if id.server, err = ca.Server(dir, "kube-apiserver", "kubernetes", "default",
		[]string{"localhost"}, []string{"127.0.0.1", firstServiceIP}); err != nil {
		return nil, err
	}
	if id.aggregator, err = frontProxy.Client(dir, "front-proxy-client", "front-proxy-client"); err != nil {
		return nil, err
	}
	if err := pki.NewSigningKey(id.signingKey); err != nil {
		return nil, err
	}
	return id, nil
}

// Admin is a client that may do everything.
func (id *Identity) Admin(server string) (*rest.Config, error) {
	return id.CA.ClientConfig(server, "admin", "system:masters")
}

// WriteKubeconfig stores a client configuration in file.
func WriteKubeconfig(config *rest.Config, user, file string) error {
	content, err := pki.Kubeconfig(config, user)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return nil
}

// componentKubeconfig writes the kubeconfig of a component that Kubernetes'
// default roles know by its user name.
func (id *Identity) componentKubeconfig(server, dir, component string) (string, error) {
	user := "system:" + component
	config, err := id.CA.ClientConfig(server, user)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, component+".kubeconfig")
	return file, WriteKubeconfig(config, user, file)
}
