package kubevirt

import (
	"context"
	"fmt"
	"time"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// establishTimeout is far beyond the second or two that it takes.
const establishTimeout = 2 * time.Minute

// Established waits until the apiserver serves all versions of the CRDs. It looks
// at discovery, which lists what is established and costs next to nothing, where
// reading the CRDs' conditions would move megabytes of schemas each time.
func Established(ctx context.Context, kube kubernetes.Interface, crds []*extv1.CustomResourceDefinition) error {
	missing := map[string]map[string]bool{}
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			if !version.Served {
				continue
			}
			groupVersion := crd.Spec.Group + "/" + version.Name
			if missing[groupVersion] == nil {
				missing[groupVersion] = map[string]bool{}
			}
			missing[groupVersion][crd.Spec.Names.Plural] = true
		}
	}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, establishTimeout, true, func(ctx context.Context) (bool, error) {
		for groupVersion, plurals := range missing {
			var list metav1.APIResourceList
			// An error is "not yet": the group appears with its first established kind.
			if err := kube.Discovery().RESTClient().Get().AbsPath("/apis/" + groupVersion).Do(ctx).Into(&list); err != nil {
				return false, nil //nolint:nilerr // see above
			}
			for _, resource := range list.APIResources {
				delete(plurals, resource.Name)
			}
			if len(plurals) > 0 {
				return false, nil
			}
			delete(missing, groupVersion)
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for CRDs (missing: %v): %w", missing, err)
	}
	return nil
}
