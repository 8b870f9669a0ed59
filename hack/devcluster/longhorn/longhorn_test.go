package longhorn

import (
	"testing"

	"github.com/drydock-dev/drydock/hack/devcluster/toolchain"
)

func TestCRDsAreReadWithoutHelm(t *testing.T) {
	tools := toolchain.Toolchain{Source: ".."}
	dir, err := tools.ModuleDir(t.Context(), toolchain.KubeVirt, Module)
	if err != nil {
		t.Fatal(err)
	}
	crds, err := CRDs(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, crd := range crds {
		found[crd.Name] = true
		if _, ok := crd.Labels["longhorn-manager"]; !ok {
			t.Errorf("%s lost its own label", crd.Name)
		}
	}
	for _, want := range []string{"volumes.longhorn.io", "replicas.longhorn.io", "engines.longhorn.io", "nodes.longhorn.io", "settings.longhorn.io"} {
		if !found[want] {
			t.Errorf("%s is missing", want)
		}
	}
}
