package kubevirt

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Launchers returns the launcher pods of a VMI, those that have ended among them. They
// are shared with the cache and must not be changed.
func (r *Reader) Launchers(namespace, vmi string) ([]*corev1.Pod, error) {
	pods, err := r.launchers.GetByIndex(launcherByVMI, key(namespace, vmi))
	if err != nil {
		return nil, fmt.Errorf("launcher pods of VMI %s/%s: %w", namespace, vmi, err)
	}
	return pods, nil
}
