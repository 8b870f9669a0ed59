package simulator_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
)

func TestHotpluggedDiskMovesWithItsVM(t *testing.T) {
	s := newScene(t, 2)
	s.allowHotplug()
	volume := s.volume("extra", s.hosts...)
	before := s.startVM("vm")
	s.eventuallyActs("vm", "addvolume", virtv1.AddVolumeOptions{
		Name: "extra",
		Disk: &virtv1.Disk{Name: "extra", DiskDevice: virtv1.DiskDevice{Disk: &virtv1.DiskTarget{Bus: virtv1.DiskBusSCSI}}},
		VolumeSource: &virtv1.HotplugVolumeSource{PersistentVolumeClaim: &virtv1.PersistentVolumeClaimVolumeSource{
			PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "extra"},
		}},
	})
	plugged := func(vmi *virtv1.VirtualMachineInstance) bool {
		return slices.ContainsFunc(vmi.Status.VolumeStatus, func(status virtv1.VolumeStatus) bool {
			return status.Name == "extra" && status.Phase == virtv1.VolumeReady && status.Target != ""
		})
	}
	s.vmiIs("vm", "has the disk", plugged)
	s.longhornIs("volumes", volume, "is attached", field(before.Status.NodeName, "status", "currentNodeID"))

	s.action("vm", "migrate", struct{}{})
	after := s.vmiIs("vm", "has moved with its disk", func(vmi *virtv1.VirtualMachineInstance) bool { return movedFrom(before)(vmi) && plugged(vmi) })
	s.longhornIs("volumes", volume, "has moved along", field(after.Status.NodeName, "status", "currentNodeID"))
	s.podsAre(virtv1.AppLabel+"=hotplug-disk", "are one, at the VM's", func(pods []corev1.Pod) bool {
		return len(pods) == 1 && pods[0].Spec.NodeName == after.Status.NodeName
	})
	s.action("vm", "removevolume", virtv1.RemoveVolumeOptions{Name: "extra"})
	s.vmiIs("vm", "is without the disk", func(vmi *virtv1.VirtualMachineInstance) bool { return !plugged(vmi) })
	s.podsAre(virtv1.AppLabel+"=hotplug-disk", "are gone", func(pods []corev1.Pod) bool { return len(pods) == 0 })
}

// allowHotplug switches the feature on for the whole cluster, which hurts no
// other scene.
func (s *scene) allowHotplug() {
	s.t.Helper()
	patch := []byte(`{"spec":{"configuration":{"developerConfiguration":{"featureGates":["HotplugVolumes"]}}}}`)
	_, err := s.virt.KubevirtV1().KubeVirts("kubevirt").Patch(s.t.Context(), "kubevirt", types.MergePatchType, patch, metav1.PatchOptions{})
	s.must(err)
}
