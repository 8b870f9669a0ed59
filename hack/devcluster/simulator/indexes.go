package simulator

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	virtv1 "kubevirt.io/api/core/v1"
)

// Indexes of the shared informers. Without them every pod event of a cluster
// with 500 VMs would walk all pods.
const (
	indexPodsByNode       = "pods-by-node"
	indexPodsByController = "pods-by-controller"
	indexVMIsByNode       = "vmis-by-node"
)

func podIndexers() cache.Indexers {
	return cache.Indexers{
		indexPodsByNode: func(object any) ([]string, error) {
			if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
				return []string{pod.Spec.NodeName}, nil
			}
			return nil, nil
		},
		indexPodsByController: func(object any) ([]string, error) {
			if pod, ok := object.(*corev1.Pod); ok {
				if owner := metav1.GetControllerOf(pod); owner != nil {
					return []string{string(owner.UID)}, nil
				}
			}
			return nil, nil
		},
	}
}

func vmiIndexers() cache.Indexers {
	return cache.Indexers{indexVMIsByNode: func(object any) ([]string, error) {
		vmi, ok := object.(*virtv1.VirtualMachineInstance)
		if !ok {
			return nil, nil
		}
		var names []string
		for _, name := range []string{vmi.Status.NodeName, vmi.Labels[virtv1.MigrationTargetNodeNameLabel]} {
			if name != "" {
				names = append(names, name)
			}
		}
		return names, nil
	}}
}

// withoutManagedFields keeps the caches small. An update that carries none
// leaves the stored ones as they are.
func withoutManagedFields(object any) (any, error) {
	if accessor, ok := object.(metav1.ObjectMetaAccessor); ok {
		if meta, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta); ok {
			meta.ManagedFields = nil
		}
	}
	return object, nil
}
