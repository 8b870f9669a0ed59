package kubevirt

import (
	"reflect"
	"testing"

	"github.com/rancher/wrangler/v3/pkg/generic"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// Slots counts as KubeVirt does: a move that is sent when KubeVirt has no slot for it
// waits for five seconds.
func TestSlots(t *testing.T) {
	vmi := func(name, node, marked string, state *virtv1.VirtualMachineInstanceMigrationState) *virtv1.VirtualMachineInstance {
		v := &virtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		v.Status.NodeName, v.Status.EvacuationNodeName, v.Status.MigrationState = node, marked, state
		return v
	}
	migration := func(name string, phase virtv1.VirtualMachineInstanceMigrationPhase) *virtv1.VirtualMachineInstanceMigration {
		m := &virtv1.VirtualMachineInstanceMigration{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "of-" + name}}
		m.Spec.VMIName, m.Status.Phase = name, phase
		return m
	}
	owned := func(strategy virtv1.EvictionStrategy) *virtv1.VirtualMachineInstance {
		v := vmi("a", "w1", "w1", nil)
		v.Spec.EvictionStrategy = &strategy
		return v
	}
	moved := &virtv1.VirtualMachineInstanceMigrationState{SourceNode: "w1", TargetNode: "w2"}
	for name, c := range map[string]struct {
		vmi       *virtv1.VirtualMachineInstance
		migration *virtv1.VirtualMachineInstanceMigration
		sent      string
		// cluster is the eviction strategy of VMIs without one, "" for none.
		cluster virtv1.EvictionStrategy
		want    plan.Slots
	}{
		"runs":                             {vmi: vmi("a", "w1", "", nil)},
		"was asked to leave a moment ago":  {vmi: vmi("a", "w1", "", nil), sent: "w1", want: plan.Slots{Cluster: 1, Node: 1}},
		"is marked":                        {vmi: vmi("a", "w1", "w1", nil), want: plan.Slots{Cluster: 1, Node: 1}},
		"is marked and migrates":           {vmi: vmi("a", "w1", "w1", nil), migration: migration("a", virtv1.MigrationPending), sent: "w1", want: plan.Slots{Cluster: 1, Node: 1}},
		"has arrived, migration goes on":   {vmi: vmi("a", "w2", "", moved), migration: migration("a", virtv1.MigrationRunning), sent: "w1", want: plan.Slots{Cluster: 1, Node: 1}},
		"has arrived, migration has ended": {vmi: vmi("a", "w2", "", moved), migration: migration("a", virtv1.MigrationSucceeded), sent: "w1"},
		"leaves another node":              {vmi: vmi("a", "w3", "w3", nil), migration: migration("a", virtv1.MigrationRunning), want: plan.Slots{Cluster: 1}},
		"is marked for others to move":     {vmi: owned(virtv1.EvictionStrategyExternal)},
		"is marked for others by default":  {vmi: vmi("a", "w1", "w1", nil), cluster: virtv1.EvictionStrategyExternal},
		"does not follow the default":      {vmi: owned(virtv1.EvictionStrategyLiveMigrate), cluster: virtv1.EvictionStrategyExternal, want: plan.Slots{Cluster: 1, Node: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			vmis := indexed[*virtv1.VirtualMachineInstance](t, "virtualmachineinstances", c.vmi)
			vmis.AddIndexer(vmiMarked, indexMarked)
			migrations := indexed[*virtv1.VirtualMachineInstanceMigration](t, "virtualmachineinstancemigrations")
			migrations.AddIndexer(migrationOngoing, indexOngoing)
			if c.migration != nil {
				if err := migrations.store.Add(c.migration); err != nil {
					t.Fatal(err)
				}
			}
			sent := map[types.NamespacedName]string{}
			if c.sent != "" {
				sent[types.NamespacedName{Namespace: "ns", Name: "a"}] = c.sent
			}
			config := &virtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: "kubevirt"}}
			if c.cluster != "" {
				config.Spec.Configuration.EvictionStrategy = &c.cluster
			}
			r := &Reader{vmis: vmis, migrations: migrations, configs: indexed[*virtv1.KubeVirt](t, "kubevirts", config)}
			if got, err := r.Slots("w1", sent); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// indexedCache is a cache that a test fills.
type indexedCache[T generic.RuntimeMetaObject] struct {
	generic.CacheInterface[T]
	store cache.Indexer
}

func indexed[T generic.RuntimeMetaObject](t *testing.T, resource string, objects ...T) indexedCache[T] {
	t.Helper()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, object := range objects {
		if err := store.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return indexedCache[T]{generic.NewCache[T](store, schema.GroupResource{Group: "kubevirt.io", Resource: resource}), store}
}
