package kubevirt

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// Slots counts migrations against KubeVirt's limits: unfinished ones, VMIs that are
// marked for evacuation and have none yet, and those in sent, which were asked to
// leave the node given there a moment ago and may not show it yet.
func (r *Reader) Slots(node string, sent map[types.NamespacedName]string) (plan.Slots, error) {
	ongoing, err := r.migrations.GetByIndex(migrationOngoing, all)
	if err != nil {
		return plan.Slots{}, fmt.Errorf("unfinished migrations: %w", err)
	}
	marked, err := r.vmis.GetByIndex(vmiMarked, all)
	if err != nil {
		return plan.Slots{}, fmt.Errorf("marked VMIs: %w", err)
	}
	config, err := r.Config()
	if err != nil {
		return plan.Slots{}, err
	}
	// By VMI, whether it takes a slot of this node as well.
	leaving := make(map[types.NamespacedName]bool, len(ongoing)+len(marked))
	for _, m := range ongoing {
		if vmi, err := r.vmis.Get(m.Namespace, m.Spec.VMIName); err == nil {
			// As KubeVirt counts: a VMI that has arrived holds the slot of the node it came
			// from until its migration has ended. One that is sent too early finds no slot
			// and is looked at again only after five seconds.
			state := vmi.Status.MigrationState
			leaving[types.NamespacedName{Namespace: vmi.Namespace, Name: vmi.Name}] = vmi.Status.NodeName == node || (state != nil && state.SourceNode == node)
		}
	}
	for _, vmi := range marked {
		// KubeVirt makes no migration for one whose owner has another controller do it.
		if plan.EvictionStrategyOf(vmi, config.EvictionStrategy) != kubevirtv1.EvictionStrategyExternal {
			name := types.NamespacedName{Namespace: vmi.Namespace, Name: vmi.Name}
			leaving[name] = leaving[name] || vmi.Status.NodeName == node
		}
	}
	for name, from := range sent {
		if vmi, err := r.vmis.Get(name.Namespace, name.Name); err == nil && vmi.Status.NodeName == from {
			leaving[name] = leaving[name] || from == node
		}
	}
	slots := plan.Slots{Cluster: len(leaving)}
	for _, here := range leaving {
		if here {
			slots.Node++
		}
	}
	return slots, nil
}

// KubeVirt's own defaults, from its virt-config package.
const (
	defaultPerCluster = 5
	defaultPerNode    = 2
)

// Config returns KubeVirt's configuration. Its resource is found wherever it is; with
// none, KubeVirt's defaults hold.
func (r *Reader) Config() (plan.KubeVirt, error) {
	config := plan.KubeVirt{MigrationsPerCluster: defaultPerCluster, MigrationsPerNode: defaultPerNode, DrainTaint: maintenance.DefaultDrainTaint}
	list, err := r.configs.List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		return config, fmt.Errorf("KubeVirt resources: %w", err)
	}
	for _, kv := range list {
		spec := &kv.Spec.Configuration
		config.EvictionStrategy = spec.EvictionStrategy
		m := spec.MigrationConfiguration
		if m == nil {
			continue
		}
		if m.ParallelMigrationsPerCluster != nil {
			config.MigrationsPerCluster = int(*m.ParallelMigrationsPerCluster)
		}
		if m.ParallelOutboundMigrationsPerNode != nil {
			config.MigrationsPerNode = int(*m.ParallelOutboundMigrationsPerNode)
		}
		if m.NodeDrainTaintKey != nil && *m.NodeDrainTaintKey != "" {
			config.DrainTaint = *m.NodeDrainTaintKey
		}
	}
	return config, nil
}
