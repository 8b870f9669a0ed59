package harvester

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

func TestUpgradesInProgress(t *testing.T) {
	for name, test := range map[string]struct {
		conditions []any
		want       string
	}{
		"just created":   {nil, "hvst-upgrade"},
		"going on":       {[]any{map[string]any{"type": "ImageReady", "status": "True"}, map[string]any{"type": "Completed", "status": "Unknown"}}, "hvst-upgrade"},
		"succeeded":      {[]any{map[string]any{"type": "Completed", "status": "True"}}, ""},
		"failed":         {[]any{map[string]any{"type": "Completed", "status": "False"}}, ""},
		"of odd content": {[]any{"Completed"}, "hvst-upgrade"},
	} {
		t.Run(name, func(t *testing.T) {
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			upgrade := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": test.conditions}}}
			upgrade.SetName("hvst-upgrade")
			upgrade.SetNamespace(metav1.NamespaceDefault)
			if err := store.Add(upgrade); err != nil {
				t.Fatal(err)
			}
			if got := (&Upgrades{store: store}).InProgress(); got != test.want {
				t.Errorf("in progress is %q, want %q", got, test.want)
			}
		})
	}
}
