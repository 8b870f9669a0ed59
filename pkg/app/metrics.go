package app

import (
	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/gather"
	kubevirtcontrollers "github.com/drydock-dev/drydock/pkg/generated/controllers/kubevirt.io/v1"
	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/metrics"
)

// vmTouched finds the VMs with a marker or with Drydock's record: a scrape must not look
// at ten thousand VMs for a handful.
const vmTouched = "drydock.dev/vm-touched"

func indexVMTouched(vm *kubevirtv1.VirtualMachine) ([]string, error) {
	_, record := vm.Annotations[maintenance.AnnotationVMRecord]
	if _, marker := vm.Annotations[maintenance.AnnotationMarker]; marker || record {
		return []string{"true"}, nil
	}
	return nil, nil
}

// measure makes the metrics of what the caches show.
func (m *manager) measure(coreV1 corecontrollers.Interface, kv kubevirtcontrollers.Interface, gatherer *gather.Gatherer) error {
	nodes, vms := coreV1.Node().Cache(), kv.VirtualMachine().Cache()
	vms.AddIndexer(vmTouched, indexVMTouched)
	m.metrics.Show(metrics.State{
		Words: gatherer.Config.Words,
		VM:    gatherer.VM,
		Nodes: func() ([]*corev1.Node, error) { return nodes.List(labels.Everything()) },
		VMs:   func() ([]*kubevirtv1.VirtualMachine, error) { return vms.GetByIndex(vmTouched, "true") },
	})
	for resource, informer := range map[string]cache.SharedIndexInformer{
		"nodes": coreV1.Node().Informer(), "pods": coreV1.Pod().Informer(),
		"virtualmachines": kv.VirtualMachine().Informer(), "virtualmachineinstances": kv.VirtualMachineInstance().Informer(),
		"virtualmachineinstancemigrations": kv.VirtualMachineInstanceMigration().Informer(),
	} {
		m.metrics.Cache(resource, informer.HasSynced)
	}
	return m.metrics.Watch(kv.VirtualMachineInstanceMigration().Informer(), kv.VirtualMachineInstance().Informer(), metrics.Lookup{
		VM: func(namespace, name string) *kubevirtv1.VirtualMachine {
			if vm, err := vms.Get(namespace, name); err == nil {
				return vm
			}
			return nil
		},
		Recorded: func(name string) bool {
			node, err := nodes.Get(name)
			if err != nil {
				return false
			}
			return maintenance.Recorded(node)
		},
	})
}
