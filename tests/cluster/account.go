package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// EnvManifest names the variable that makes the manager run as the service account of an
// installation instead of as an administrator: a file with the account and its roles,
// which is applied before. Its requests are then those of Account in the audit log.
const EnvManifest = "DRYDOCK_ACCOUNT_OF"

// The service account of a default installation, whose requests are in the audit log.
const (
	AccountNamespace = "harvester-system"
	AccountName      = "drydock"
	Account          = "system:serviceaccount:" + AccountNamespace + ":" + AccountName
)

// managerUser is whom the manager is in tests unless EnvManifest is set.
const managerUser = "drydock"

// substitute reports that the user is replaced by the service account of the manifest.
func substitute(user string) (manifest string, yes bool) {
	manifest = os.Getenv(EnvManifest)
	return manifest, manifest != "" && user == managerUser
}

// AccountKubeconfig writes a kubeconfig with a token of a service account, as a pod would
// have it, and returns its path. It is removed with the test.
func (c *Cluster) AccountKubeconfig(t testing.TB, namespace, name string) string {
	t.Helper()
	hours := int64(6 * 60 * 60)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours}}
	token, err := c.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("token of service account %s/%s: %v", namespace, name, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{Server: c.Admin.Host, CertificateAuthority: c.Admin.CAFile, CertificateAuthorityData: c.Admin.CAData}
	config.AuthInfos["account"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["account"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "account", Namespace: namespace}
	config.CurrentContext = "account"
	file := filepath.Join(t.TempDir(), "account.kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatalf("kubeconfig of service account %s/%s: %v", namespace, name, err)
	}
	return file
}

// accountResources are what an account's rights consist of.
var accountResources = map[string]schema.GroupVersionResource{
	"ServiceAccount":     corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
	"Role":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
}

// applyAccount makes the account and the roles of a manifest. They are the same for all
// tests of a package, and go with the last, see Main.
func (c *Cluster) applyAccount(ctx context.Context, manifest string) error {
	return c.eachOfAccount(manifest, func(objects dynamic.ResourceInterface, object *unstructured.Unstructured) error {
		_, err := objects.Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// removeAccount takes the account and the roles of a manifest out of a cluster that others
// install Drydock into.
func removeAccount(dir, manifest string) error {
	c := &Cluster{StateDir: dir}
	if err := c.connect(); err != nil {
		return err
	}
	return c.eachOfAccount(manifest, func(objects dynamic.ResourceInterface, object *unstructured.Unstructured) error {
		err := objects.Delete(context.Background(), object.GetName(), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (c *Cluster) eachOfAccount(manifest string, do func(dynamic.ResourceInterface, *unstructured.Unstructured) error) error {
	objects, err := Objects(manifest)
	if err != nil {
		return err
	}
	for _, object := range objects {
		resource, ok := accountResources[object.GetKind()]
		if !ok {
			continue
		}
		if err := do(c.Dynamic.Resource(resource).Namespace(object.GetNamespace()), object); err != nil {
			return fmt.Errorf("%s: %s %s: %w", manifest, object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// Objects reads the objects of a manifest.
func Objects(manifest string) ([]*unstructured.Unstructured, error) {
	file, err := os.Open(manifest)
	if err != nil {
		return nil, fmt.Errorf("reading a manifest: %w", err)
	}
	defer file.Close() //nolint:errcheck // read only
	return Decode(file)
}

// Decode reads the objects of a stream of YAML documents.
func Decode(r io.Reader) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(r, 4096); ; {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil && strings.Contains(err.Error(), "Object 'Kind' is missing"):
			continue // nothing but comments
		case err != nil:
			return nil, fmt.Errorf("decoding a manifest: %w", err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
