package simulator

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	virtv1 "kubevirt.io/api/core/v1"
)

// An obstacle is why a VMI cannot be migrated, in KubeVirt's words.
type obstacle struct {
	reason, message string
}

// reportMigratable judges whether the guest could be migrated, by the rules of
// virt-handler that depend on the VMI alone; an annotation adds any other
// reason.
func (p *pass) reportMigratable() {
	found, block := p.obstacle()
	wanted := virtv1.VirtualMachineInstanceCondition{Type: virtv1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionTrue}
	storage := virtv1.VirtualMachineInstanceCondition{Type: virtv1.VirtualMachineInstanceIsStorageLiveMigratable, Status: corev1.ConditionTrue}
	if found != nil {
		wanted.Status, wanted.Reason, wanted.Message = corev1.ConditionFalse, found.reason, found.message
		if found.reason != virtv1.VirtualMachineInstanceReasonDisksNotMigratable {
			// Moving the storage along helps against disks, and nothing else.
			storage.Status, storage.Reason = corev1.ConditionFalse, virtv1.VirtualMachineInstanceReasonNotMigratable
			storage.Message = fmt.Sprintf("%s: %s", found.reason, found.message)
		}
	}
	p.vmi.Status.MigrationMethod = virtv1.LiveMigration
	if block {
		p.vmi.Status.MigrationMethod = virtv1.BlockMigration
	}
	differs := setCondition(p.vmi, wanted)
	setCondition(p.vmi, storage)
	strategy := p.vmi.Spec.EvictionStrategy
	if differs && found != nil && strategy != nil && *strategy == virtv1.EvictionStrategyLiveMigrate {
		p.event(corev1.EventTypeWarning, virtv1.Migrated, "EvictionStrategy is set but vmi is not migratable; "+found.message)
	}
}

func (p *pass) obstacle() (found *obstacle, block bool) {
	disks, block := diskObstacle(p.vmi)
	if reason, message, set := p.behaviour.reasonAndMessage(annotationNotMigratable); set {
		return &obstacle{reason: reason, message: message}, block
	}
	devices := p.vmi.Spec.Domain.Devices
	switch {
	case !networkIsMigratable(p.vmi):
		return &obstacle{virtv1.VirtualMachineInstanceReasonInterfaceNotMigratable, fmt.Sprintf(
			"cannot migrate VMI which does not use masquerade, bridge with %s VM annotation or a migratable plugin to connect to the pod network",
			virtv1.AllowPodBridgeNetworkLiveMigrationAnnotation)}, block
	case len(devices.HostDevices) > 0 || len(devices.GPUs) > 0:
		return &obstacle{virtv1.VirtualMachineInstanceReasonHostDeviceNotMigratable, "VMI uses a PCI host devices"}, block
	case p.vmi.Spec.Domain.LaunchSecurity != nil:
		return &obstacle{virtv1.VirtualMachineInstanceReasonSEVNotMigratable, "VMI uses SEV"}, block
	default:
		return disks, block
	}
}

// networkIsMigratable looks at the pod network alone, as KubeVirt does.
func networkIsMigratable(vmi *virtv1.VirtualMachineInstance) bool {
	for _, network := range vmi.Spec.Networks {
		if network.Pod == nil {
			continue
		}
		for _, link := range vmi.Spec.Domain.Devices.Interfaces {
			if link.Name != network.Name {
				continue
			}
			_, allowed := vmi.Annotations[virtv1.AllowPodBridgeNetworkLiveMigrationAnnotation]
			return link.Masquerade != nil || link.Binding != nil || (link.Bridge != nil && allowed)
		}
	}
	return true
}

// diskObstacle finds a disk that only the present host can reach, and tells
// whether data has to be copied along (block migration).
func diskObstacle(vmi *virtv1.VirtualMachineInstance) (found *obstacle, block bool) {
	block = len(vmi.Status.MigratedVolumes) > 0
	for _, volume := range vmi.Spec.Volumes {
		var claim string
		switch {
		case volume.PersistentVolumeClaim != nil:
			claim = volume.PersistentVolumeClaim.ClaimName
		case volume.DataVolume != nil:
			claim = volume.DataVolume.Name
		case volume.HostDisk != nil:
			if volume.HostDisk.Shared == nil || !*volume.HostDisk.Shared {
				return &obstacle{virtv1.VirtualMachineInstanceReasonDisksNotMigratable, "cannot migrate VMI with non-shared HostDisk"}, true
			}
			continue
		default:
			if !isReadOnlyDisk(vmi, volume.Name) {
				block = true
			}
			continue
		}
		info := claimInfo(vmi, volume.Name)
		if info == nil || !slices.Contains(info.AccessModes, corev1.ReadWriteMany) {
			problem := fmt.Sprintf("PVC %s is not shared", claim)
			if info == nil {
				problem = fmt.Sprintf("Unable to determine if PVC %s is shared", claim)
			}
			return &obstacle{virtv1.VirtualMachineInstanceReasonDisksNotMigratable,
				"cannot migrate VMI: " + problem + ", live migration requires that all PVCs must be shared (using ReadWriteMany access mode)"}, true
		}
	}
	return nil, block
}

func claimInfo(vmi *virtv1.VirtualMachineInstance, volume string) *virtv1.PersistentVolumeClaimInfo {
	for _, status := range vmi.Status.VolumeStatus {
		if status.Name == volume {
			return status.PersistentVolumeClaimInfo
		}
	}
	return nil
}

func isReadOnlyDisk(vmi *virtv1.VirtualMachineInstance, volume string) bool {
	for _, disk := range vmi.Spec.Domain.Devices.Disks {
		if disk.Name == volume {
			return disk.CDRom != nil && (disk.CDRom.ReadOnly == nil || *disk.CDRom.ReadOnly)
		}
	}
	return false
}
