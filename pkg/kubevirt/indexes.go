package kubevirt

import (
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

const (
	vmiByNode        = "drydock.dev/vmi-by-node"
	launcherByNode   = "drydock.dev/launcher-by-node"
	launcherByVMI    = "drydock.dev/launcher-by-vmi"
	migrationByVMI   = "drydock.dev/migration-by-vmi"
	migrationOngoing = "drydock.dev/migration-unfinished"
	vmiMarked        = "drydock.dev/vmi-marked"
	vmByRecord       = "drydock.dev/vm-by-record"
)

// all is the one key of an index that only tells members from others.
const all = "all"

func indexVMIByNode(vmi *kubevirtv1.VirtualMachineInstance) ([]string, error) {
	return plan.NodesOf(vmi), nil
}

// indexMarked finds VMIs that are marked for an evacuation which has not happened.
func indexMarked(vmi *kubevirtv1.VirtualMachineInstance) ([]string, error) {
	if name := vmi.Status.EvacuationNodeName; name != "" && name == vmi.Status.NodeName && !vmi.IsFinal() {
		return []string{all}, nil
	}
	return nil, nil
}

func indexLauncherByNode(pod *corev1.Pod) ([]string, error) {
	if pod.Spec.NodeName == "" || plan.PodFinal(pod) {
		return nil, nil
	}
	return []string{pod.Spec.NodeName}, nil
}

func indexLauncherByVMI(pod *corev1.Pod) ([]string, error) {
	if name := plan.VMIOf(pod); name != "" {
		return []string{key(pod.Namespace, name)}, nil
	}
	return nil, nil
}

func indexMigrationByVMI(m *kubevirtv1.VirtualMachineInstanceMigration) ([]string, error) {
	return []string{key(m.Namespace, m.Spec.VMIName)}, nil
}

func indexOngoing(m *kubevirtv1.VirtualMachineInstanceMigration) ([]string, error) {
	if m.IsFinal() {
		return nil, nil
	}
	return []string{all}, nil
}

// indexVMByRecord finds the VMs that Drydock stopped for a node. One whose record cannot
// be read is reported when its VM is looked at.
func indexVMByRecord(vm *kubevirtv1.VirtualMachine) ([]string, error) {
	record, err := maintenance.VMRecordOf(vm)
	if err != nil || record == nil {
		return nil, nil //nolint:nilerr // An index cannot fail.
	}
	return []string{record.Node}, nil
}

func key(namespace, name string) string { return namespace + "/" + name }
