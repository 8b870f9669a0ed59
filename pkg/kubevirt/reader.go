package kubevirt

import (
	"fmt"
	"slices"
	"strings"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	kubevirtcontrollers "github.com/drydock-dev/drydock/pkg/generated/controllers/kubevirt.io/v1"
	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// LauncherSelector selects the only pods that are cached for the whole cluster.
const LauncherSelector = kubevirtv1.AppLabel + "=virt-launcher"

// Reader answers questions about virtual machines from caches. Objects are shared
// with the caches and must not be changed.
type Reader struct {
	vms        kubevirtcontrollers.VirtualMachineCache
	vmis       kubevirtcontrollers.VirtualMachineInstanceCache
	migrations kubevirtcontrollers.VirtualMachineInstanceMigrationCache
	configs    kubevirtcontrollers.KubeVirtCache
	launchers  corecontrollers.PodCache
}

// NewReader adds the indexes that a Reader needs; it must be called before the caches
// start. The pod cache holds launcher pods alone, see LauncherSelector.
func NewReader(kv kubevirtcontrollers.Interface, launchers corecontrollers.PodController) *Reader {
	r := &Reader{
		vms:        kv.VirtualMachine().Cache(),
		vmis:       kv.VirtualMachineInstance().Cache(),
		migrations: kv.VirtualMachineInstanceMigration().Cache(),
		configs:    kv.KubeVirt().Cache(),
		launchers:  launchers.Cache(),
	}
	r.vms.AddIndexer(vmByRecord, indexVMByRecord)
	r.vmis.AddIndexer(vmiByNode, indexVMIByNode)
	r.vmis.AddIndexer(vmiMarked, indexMarked)
	r.migrations.AddIndexer(migrationByVMI, indexMigrationByVMI)
	r.migrations.AddIndexer(migrationOngoing, indexOngoing)
	r.launchers.AddIndexer(launcherByNode, indexLauncherByNode)
	r.launchers.AddIndexer(launcherByVMI, indexLauncherByVMI)
	return r
}

// Instances returns the VMIs on a node, in any sense that plan knows: by status, by a
// non-final launcher pod bound there (KubeVirt fills status.nodeName only when the
// launcher is ready), or as the target of an unfinished migration.
func (r *Reader) Instances(node string) ([]plan.Instance, error) {
	vmis, err := r.vmis.GetByIndex(vmiByNode, node)
	if err != nil {
		return nil, fmt.Errorf("VMIs of node %s: %w", node, err)
	}
	launchers, err := r.launchers.GetByIndex(launcherByNode, node)
	if err != nil {
		return nil, fmt.Errorf("launcher pods of node %s: %w", node, err)
	}
	found := make(map[types.UID]bool, len(vmis))
	var instances []plan.Instance
	include := func(vmi *kubevirtv1.VirtualMachineInstance) error {
		if found[vmi.UID] {
			return nil
		}
		found[vmi.UID] = true
		instance, err := r.instance(vmi, node)
		if err == nil && (len(instance.Launchers) > 0 || vmi.Status.NodeName == node || targets(vmi, node)) {
			instances = append(instances, instance)
		}
		return err
	}
	for _, vmi := range vmis {
		if err := include(vmi); err != nil {
			return nil, err
		}
	}
	for _, pod := range launchers {
		name := plan.VMIOf(pod)
		if name == "" {
			continue
		}
		vmi, err := r.vmis.Get(pod.Namespace, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("VMI of launcher %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if err := include(vmi); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(instances, func(a, b plan.Instance) int {
		return strings.Compare(key(a.VMI.Namespace, a.VMI.Name), key(b.VMI.Namespace, b.VMI.Name))
	})
	return instances, nil
}

func targets(vmi *kubevirtv1.VirtualMachineInstance, node string) bool {
	return plan.Migrates(vmi) && vmi.Status.MigrationState.TargetNode == node
}

func (r *Reader) instance(vmi *kubevirtv1.VirtualMachineInstance, node string) (plan.Instance, error) {
	instance := plan.Instance{VMI: vmi}
	vm, err := r.owner(vmi)
	if err != nil {
		return instance, err
	}
	instance.VM, instance.OwnerUnknown = vm, vm == nil && ownedByVM(vmi)
	pods, err := r.launchers.GetByIndex(launcherByVMI, key(vmi.Namespace, vmi.Name))
	if err != nil {
		return instance, fmt.Errorf("launcher pods of VMI %s/%s: %w", vmi.Namespace, vmi.Name, err)
	}
	for _, pod := range pods {
		switch {
		case plan.PodFinal(pod):
		case pod.Spec.NodeName == node:
			instance.Launchers = append(instance.Launchers, pod)
		default:
			instance.Targets = append(instance.Targets, pod)
		}
	}
	instance.Migrations, err = r.migrations.GetByIndex(migrationByVMI, key(vmi.Namespace, vmi.Name))
	if err != nil {
		return instance, fmt.Errorf("migrations of VMI %s/%s: %w", vmi.Namespace, vmi.Name, err)
	}
	slices.SortFunc(instance.Migrations, func(a, b *kubevirtv1.VirtualMachineInstanceMigration) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	return instance, nil
}

// owner returns the VM that owns a VMI, whatever API version the reference names; nil
// when it has none, or belongs to a replica set or pool.
func (r *Reader) owner(vmi *kubevirtv1.VirtualMachineInstance) (*kubevirtv1.VirtualMachine, error) {
	if !ownedByVM(vmi) {
		return nil, nil
	}
	owner := metav1.GetControllerOf(vmi)
	vm, err := r.vms.Get(vmi.Namespace, owner.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("VM of VMI %s/%s: %w", vmi.Namespace, vmi.Name, err)
	case vm.UID != owner.UID:
		return nil, nil
	}
	return vm, nil
}

func ownedByVM(vmi *kubevirtv1.VirtualMachineInstance) bool {
	owner := metav1.GetControllerOf(vmi)
	return owner != nil && owner.Kind == "VirtualMachine"
}

// LauncherOwner returns the VMI and VM that a launcher pod belongs to; either is nil
// when it cannot be found. The VM of a pod whose VMI is gone is found by its labels.
func (r *Reader) LauncherOwner(pod *corev1.Pod) (*kubevirtv1.VirtualMachineInstance, *kubevirtv1.VirtualMachine) {
	if name := plan.VMIOf(pod); name != "" {
		if vmi, err := r.vmis.Get(pod.Namespace, name); err == nil {
			vm, _ := r.owner(vmi)
			return vmi, vm
		}
	}
	if name := maintenance.LauncherVMName(pod.Labels); name != "" {
		if vm, err := r.vms.Get(pod.Namespace, name); err == nil {
			return nil, vm
		}
	}
	return nil, nil
}

// Stopped returns the VMs that Drydock stopped for a node of this name.
func (r *Reader) Stopped(node string) ([]plan.StoppedVM, error) {
	vms, err := r.vms.GetByIndex(vmByRecord, node)
	if err != nil {
		return nil, fmt.Errorf("VMs stopped for node %s: %w", node, err)
	}
	slices.SortFunc(vms, func(a, b *kubevirtv1.VirtualMachine) int {
		return strings.Compare(key(a.Namespace, a.Name), key(b.Namespace, b.Name))
	})
	stopped := make([]plan.StoppedVM, 0, len(vms))
	for _, vm := range vms {
		v, err := r.StoppedVM(vm)
		if err != nil {
			return nil, err
		}
		if v != nil {
			stopped = append(stopped, *v)
		}
	}
	return stopped, nil
}

// StoppedVM returns what decides about a VM that Drydock stopped; nil when it has no
// record. A record that cannot be read is an error.
func (r *Reader) StoppedVM(vm *kubevirtv1.VirtualMachine) (*plan.StoppedVM, error) {
	record, err := maintenance.VMRecordOf(vm)
	if err != nil {
		return nil, fmt.Errorf("VM %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	if record == nil {
		return nil, nil
	}
	v := &plan.StoppedVM{VM: vm, Record: record}
	pods, err := r.Launchers(vm.Namespace, vm.Name)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.UID == record.Stopped && !plan.PodFinal(pod) {
			v.Launchers = append(v.Launchers, pod)
		}
	}
	vmi, err := r.vmis.Get(vm.Namespace, vm.Name)
	switch {
	case err == nil:
		v.VMI = vmi
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("VMI of VM %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	return v, nil
}

// Runs reports whether a VMI exists and has not ended.
func (r *Reader) Runs(namespace, name string) bool {
	vmi, err := r.vmis.Get(namespace, name)
	return err == nil && !vmi.IsFinal()
}

// Requests sums what the launcher pods on each node request.
func (r *Reader) Requests() (map[string]corev1.ResourceList, error) {
	pods, err := r.launchers.List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("launcher pods: %w", err)
	}
	sums := map[string]corev1.ResourceList{}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || plan.PodFinal(pod) {
			continue
		}
		sum := sums[pod.Spec.NodeName]
		if sum == nil {
			sum = corev1.ResourceList{}
			sums[pod.Spec.NodeName] = sum
		}
		for i := range pod.Spec.Containers {
			for name, q := range pod.Spec.Containers[i].Resources.Requests {
				total := sum[name]
				total.Add(q)
				sum[name] = total
			}
		}
	}
	return sums, nil
}
