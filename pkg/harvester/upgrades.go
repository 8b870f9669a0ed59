// Package harvester is what Harvester looks like from here, where it is installed. It
// is ring 2: it handles Harvester's objects unstructured, since its Go module brings
// Rancher along, decides nothing, and imports no other neighbour system.
package harvester

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// UpgradeCRD is the CustomResourceDefinition by which Harvester is recognised.
const UpgradeCRD = "upgrades.harvesterhci.io"

var upgradeResource = schema.GroupVersionResource{Group: "harvesterhci.io", Version: "v1beta1", Resource: "upgrades"}

// Upgrades knows Harvester's upgrades. Harvester keeps the old ones and labels the one
// that counts.
type Upgrades struct{ store cache.Store }

// WatchUpgrades begins to watch upgrades and returns once they are known. The watch
// ends with the context.
func WatchUpgrades(ctx context.Context, client dynamic.Interface) (*Upgrades, error) {
	informer := dynamicinformer.NewFilteredDynamicInformer(client, upgradeResource, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = "harvesterhci.io/latestUpgrade=true" }).Informer()
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("upgrades: %w", ctx.Err())
	}
	return &Upgrades{store: informer.GetStore()}, nil
}

// InProgress names an upgrade that has neither succeeded nor failed, "" for none.
func (u *Upgrades) InProgress() string {
	var names []string
	for _, obj := range u.store.List() {
		if upgrade, ok := obj.(*unstructured.Unstructured); ok && !over(upgrade) {
			names = append(names, upgrade.GetName())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// over reads the condition Completed: Unknown, or not there yet, means that the
// upgrade goes on; False means that it failed.
func over(upgrade *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(upgrade.Object, "status", "conditions")
	for _, item := range conditions {
		condition, ok := item.(map[string]any)
		if ok && condition["type"] == "Completed" {
			status := condition["status"]
			return status == string(corev1.ConditionTrue) || status == string(corev1.ConditionFalse)
		}
	}
	return false
}
