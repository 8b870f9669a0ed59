package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// healthyOutside are the nodes, other than the subject, that hold a healthy replica
// and are not in maintenance themselves.
func (s *situation) healthyOutside(v *Volume) int {
	var count int
	for _, name := range v.Healthy {
		if name == s.Name {
			continue
		}
		if node := s.byName[name]; node != nil && maintenance.NodeReady(node) && !s.engaged(node) {
			count++
		}
	}
	return count
}

// lastHealthyHere reports that this node holds a healthy replica and no other node
// does: without this node the volume's data cannot be read.
func (s *situation) lastHealthyHere(v *Volume) bool {
	return slices.Contains(v.Healthy, s.Name) && s.healthyOutside(v) == 0
}

func (s *situation) usedBy(v *Volume, namespace string, claims []string) bool {
	return v.Namespace == namespace && slices.Contains(claims, v.Claim)
}

// soleCopies are the volumes whose only healthy copy is on this node. Rebooting the
// node is fine where nothing uses them; removing it loses them.
func (s *situation) soleCopies() []string {
	var names []string
	for i := range s.Volumes {
		if s.lastHealthyHere(&s.Volumes[i]) {
			names = append(names, s.Volumes[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// usedElsewhere returns the first user of the volume that is not a VM of this node:
// such a user would lose its disk when the node goes down.
func (s *situation) usedElsewhere(v *Volume) (VolumeUser, bool) {
	for _, user := range v.Users {
		if user.Kind == "VirtualMachineInstance" && s.instanceHere(user.Namespace, user.Name) {
			continue
		}
		if user.Kind == "Pod" && s.launcherHere(user.Namespace, user.Name) {
			continue
		}
		return user, true
	}
	return VolumeUser{}, false
}

// launcherHere reports a launcher of a VM of this node. Longhorn names it as the user of
// a hot-plugged volume, since it owns the pod that holds the disk.
func (s *situation) launcherHere(namespace, name string) bool {
	return slices.ContainsFunc(s.Instances, func(i Instance) bool {
		return slices.ContainsFunc(i.Launchers, func(pod *corev1.Pod) bool { return pod.Namespace == namespace && pod.Name == name })
	})
}

func (s *situation) instanceHere(namespace, name string) bool {
	return slices.ContainsFunc(s.Instances, func(i Instance) bool {
		return i.VMI.Namespace == namespace && i.VMI.Name == name && i.on(s.Name)
	})
}
