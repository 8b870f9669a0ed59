package simulator

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
)

// report writes what the host sees of a running guest. It only adds or changes
// what differs, so that a VMI at rest is never written.
func (p *pass) report(pod *corev1.Pod) {
	status := &p.vmi.Status
	// SELinux is off on a simulated host; a migration target is not created
	// while this is empty.
	status.SelinuxContext = "none"
	if status.Machine == nil {
		status.Machine = &virtv1.Machine{Type: machineType}
	}
	if status.GuestOSInfo.Name == "" {
		status.GuestOSInfo = virtv1.VirtualMachineInstanceGuestOSInfo{
			ID: "fedora", Name: "Fedora Linux", PrettyName: "Fedora Linux 41 (Cloud Edition)", Version: "41", VersionID: "41",
			KernelRelease: "6.11.4-301.fc41.x86_64", Machine: "x86_64",
		}
	}
	p.reportMemory()
	p.reportVolumes()
	p.reportInterfaces(pod)
	p.reportMigratable()
	if condition(p.vmi, virtv1.VirtualMachineInstanceAgentConnected) == nil {
		status.Conditions = append(status.Conditions, virtv1.VirtualMachineInstanceCondition{
			Type: virtv1.VirtualMachineInstanceAgentConnected, Status: corev1.ConditionTrue, LastProbeTime: metav1.NewTime(p.now),
		})
	}
	p.reportPaused()
}

func (p *pass) reportMemory() {
	memory := p.vmi.Spec.Domain.Memory
	if memory == nil || memory.Guest == nil {
		return
	}
	if p.vmi.Status.Memory == nil {
		p.vmi.Status.Memory = &virtv1.MemoryStatus{GuestAtBoot: memory.Guest, GuestRequested: memory.Guest}
	}
	if current := p.vmi.Status.Memory.GuestCurrent; current == nil || current.Cmp(*memory.Guest) != 0 {
		p.vmi.Status.Memory.GuestCurrent = memory.Guest
	}
}

// reportVolumes names the guest's devices. Hot-plugged ones take two steps, as
// on metal: mounted into the launcher, then attached to the guest.
func (p *pass) reportVolumes() {
	inSpec := map[string]bool{}
	for _, volume := range p.vmi.Spec.Volumes {
		inSpec[volume.Name] = true
	}
	// The place in the spec, not in the status: a disk keeps its name when
	// others come and go.
	place := map[string]int{}
	for i, disk := range p.vmi.Spec.Domain.Devices.Disks {
		place[disk.Name] = i
	}
	for i := range p.vmi.Status.VolumeStatus {
		volume := &p.vmi.Status.VolumeStatus[i]
		if volume.HotplugVolume == nil {
			volume.Target = deviceName("vd", place[volume.Name])
			continue
		}
		switch {
		case !inSpec[volume.Name]:
			if volume.Phase != virtv1.HotplugVolumeUnMounted && (volume.Phase == virtv1.HotplugVolumeDetaching || volume.Phase == virtv1.VolumeReady) {
				volume.Target, volume.Phase, volume.Reason = "", virtv1.HotplugVolumeUnMounted, "VolumeUnMountedFromPod"
				volume.Message = fmt.Sprintf("Volume %s has been unmounted from virt-launcher pod", volume.Name)
			}
		case volume.Phase == virtv1.HotplugVolumeAttachedToNode && volume.HotplugVolume.AttachPodUID != "":
			volume.Phase, volume.Reason = virtv1.HotplugVolumeMounted, "VolumeMountedToPod"
			volume.Message = fmt.Sprintf("Volume %s has been mounted in virt-launcher pod", volume.Name)
		case volume.Phase == virtv1.HotplugVolumeMounted:
			volume.Target, volume.Phase, volume.Reason = deviceName("sd", place[volume.Name]), virtv1.VolumeReady, "VolumeReady"
			volume.Message = fmt.Sprintf("Successfully attach hotplugged volume %s to VM", volume.Name)
		}
	}
}

func deviceName(prefix string, index int) string {
	const letters = 'z' - 'a' + 1
	if index >= letters {
		prefix += string(rune('a' + index/letters - 1))
	}
	return prefix + string(rune('a'+index%letters))
}

// reportInterfaces gives each interface its addresses. Fields that
// virt-controller fills from the pod stay as they are; writing them too would
// make the two answer each other for ever.
func (p *pass) reportInterfaces(pod *corev1.Pod) {
	podNetwork := ""
	for _, network := range p.vmi.Spec.Networks {
		if network.Pod != nil {
			podNetwork = network.Name
		}
	}
	for i, spec := range p.vmi.Spec.Domain.Devices.Interfaces {
		seen := p.interfaceStatus(spec.Name)
		if seen.MAC == "" {
			seen.MAC = spec.MacAddress
		}
		if seen.MAC == "" {
			sum := digest(string(p.vmi.UID) + "/" + spec.Name)
			seen.MAC = fmt.Sprintf("02:00:%s:%s:%s:%s", sum[0:2], sum[2:4], sum[4:6], sum[6:8])
		}
		if seen.InterfaceName == "" {
			seen.InterfaceName, seen.QueueCount = fmt.Sprintf("eth%d", i), 1
		}
		if seen.InfoSource == "" {
			seen.InfoSource = "domain, guest-agent"
		}
		if spec.Name == podNetwork && pod.Status.PodIP != "" && seen.IP != pod.Status.PodIP {
			seen.IP, seen.IPs = pod.Status.PodIP, []string{pod.Status.PodIP}
		}
	}
}

func (p *pass) interfaceStatus(name string) *virtv1.VirtualMachineInstanceNetworkInterface {
	for i := range p.vmi.Status.Interfaces {
		if p.vmi.Status.Interfaces[i].Name == name {
			return &p.vmi.Status.Interfaces[i]
		}
	}
	p.vmi.Status.Interfaces = append(p.vmi.Status.Interfaces, virtv1.VirtualMachineInstanceNetworkInterface{Name: name})
	return &p.vmi.Status.Interfaces[len(p.vmi.Status.Interfaces)-1]
}

func (p *pass) paused() bool {
	return p.behaviour.oneOf(annotationPaused, wordTrue, wordFalse) == wordTrue
}

func (p *pass) reportPaused() {
	has := condition(p.vmi, virtv1.VirtualMachineInstancePaused) != nil
	switch {
	case p.paused() && !has:
		now := metav1.NewTime(p.now)
		p.vmi.Status.Conditions = append(p.vmi.Status.Conditions, virtv1.VirtualMachineInstanceCondition{
			Type: virtv1.VirtualMachineInstancePaused, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now,
			Reason: "PausedByUser", Message: "VMI was paused by user",
		})
	case !p.paused() && has:
		dropCondition(p.vmi, virtv1.VirtualMachineInstancePaused)
	}
}

func condition(vmi *virtv1.VirtualMachineInstance, kind virtv1.VirtualMachineInstanceConditionType) *virtv1.VirtualMachineInstanceCondition {
	for i := range vmi.Status.Conditions {
		if vmi.Status.Conditions[i].Type == kind {
			return &vmi.Status.Conditions[i]
		}
	}
	return nil
}

func dropCondition(vmi *virtv1.VirtualMachineInstance, kind virtv1.VirtualMachineInstanceConditionType) {
	var kept []virtv1.VirtualMachineInstanceCondition
	for _, existing := range vmi.Status.Conditions {
		if existing.Type != kind {
			kept = append(kept, existing)
		}
	}
	vmi.Status.Conditions = kept
}

// setCondition replaces a condition in place, so that the order is stable.
func setCondition(vmi *virtv1.VirtualMachineInstance, wanted virtv1.VirtualMachineInstanceCondition) (differs bool) {
	existing := condition(vmi, wanted.Type)
	if existing == nil {
		vmi.Status.Conditions = append(vmi.Status.Conditions, wanted)
		return true
	}
	if existing.Status == wanted.Status && existing.Reason == wanted.Reason && existing.Message == wanted.Message {
		return false
	}
	*existing = wanted
	return true
}
