// Package longhorn installs Longhorn's CRDs. Nothing of Longhorn runs: the
// simulator makes volumes and replicas follow their VMs.
package longhorn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	extclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
)

// Module is where the CRDs come from.
const Module = "github.com/longhorn/longhorn-manager"

// Namespace is where Longhorn's objects live.
const Namespace = "longhorn-system"

// helmLabels is the one piece of Helm in the file: what it includes is labels
// that only Helm needs, and what follows it is YAML.
var helmLabels = regexp.MustCompile(`(?m)^(\s*labels:) \{\{-.*\}\}$`)

// CRDs reads the CRDs from the module's source.
func CRDs(moduleDir string) ([]*extv1.CustomResourceDefinition, error) {
	file := filepath.Join(moduleDir, "k8s", "crds.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading Longhorn's CRDs: %w", err)
	}
	content = helmLabels.ReplaceAll(content, []byte("$1"))
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var crds []*extv1.CustomResourceDefinition
	for {
		crd := &extv1.CustomResourceDefinition{}
		if err := decoder.Decode(crd); errors.Is(err, io.EOF) {
			return crds, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if crd.Name != "" {
			crds = append(crds, crd)
		}
	}
}

// Install creates the CRDs and the StorageClass `longhorn`, behind which no
// provisioner runs. Create is enough, since a dev cluster always starts empty,
// and costs the apiserver less than server-side apply of schemas this large.
func Install(ctx context.Context, admin *rest.Config, crds []*extv1.CustomResourceDefinition) error {
	extensions, err := extclient.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("building a CRD client: %w", err)
	}
	for _, crd := range crds {
		if _, err := extensions.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the CRD %s: %w", crd.Name, err)
		}
	}
	kube, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("building a Kubernetes client: %w", err)
	}
	expand, reclaim, binding := true, corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
	class := &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: "longhorn"},
		Provisioner:          "driver.longhorn.io",
		AllowVolumeExpansion: &expand,
		ReclaimPolicy:        &reclaim,
		VolumeBindingMode:    &binding,
	}
	if _, err := kube.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the StorageClass: %w", err)
	}
	return nil
}
