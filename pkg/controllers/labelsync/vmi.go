package labelsync

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// onVMI makes launcher pods follow their VMI, whoever owns that. While a VM migrates
// there are two of them.
func (c *Controller) onVMI(_ string, vmi *kubevirtv1.VirtualMachineInstance) (*kubevirtv1.VirtualMachineInstance, error) {
	if vmi == nil || vmi.DeletionTimestamp != nil || !c.leading.Load() {
		return vmi, nil
	}
	launchers, err := c.Launchers.Launchers(vmi.Namespace, vmi.Name)
	if err != nil {
		return vmi, err
	}
	var errs error
	for _, launcher := range launchers {
		if !follows(launcher, vmi) {
			continue
		}
		labels, annotations := c.Settings.toPod(vmi.Labels, pod{launcher.Labels, launcher.Annotations}, func() []pod {
			return predecessors(launchers, launcher, vmi)
		})
		if labels == nil {
			continue
		}
		again, err := c.write(c.PatchPod, "launcher pod", launcher, labels, annotations)
		if again {
			c.VMIs.EnqueueAfter(vmi.Namespace, vmi.Name, conflictDelay)
		}
		errs = errors.Join(errs, err)
	}
	return vmi, errs
}

// follows reports a launcher pod that is to have the labels of a VMI: one of its own
// that has not ended and is not about to. The one that a VM has migrated away from
// stays as long as the VMI.
func follows(launcher *corev1.Pod, vmi *kubevirtv1.VirtualMachineInstance) bool {
	return !plan.PodFinal(launcher) && launcher.DeletionTimestamp == nil && ownedBy(launcher, vmi)
}

func ownedBy(launcher *corev1.Pod, vmi *kubevirtv1.VirtualMachineInstance) bool {
	owner := metav1.GetControllerOfNoCopy(launcher)
	return owner != nil && owner.UID == vmi.UID
}

// predecessors are the VMI's other pods.
func predecessors(launchers []*corev1.Pod, of *corev1.Pod, vmi *kubevirtv1.VirtualMachineInstance) []pod {
	var others []pod
	for _, launcher := range launchers {
		if launcher.UID != of.UID && ownedBy(launcher, vmi) {
			others = append(others, pod{launcher.Labels, launcher.Annotations})
		}
	}
	return others
}
