package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Reason is a machine-readable name of why something is the way it is.
type Reason string

const (
	// ReasonNotLiveMigratable: KubeVirt's condition LiveMigratable is False.
	ReasonNotLiveMigratable Reason = "NotLiveMigratable"
	// ReasonNoTarget: no other node satisfies the VM's scheduling rules.
	ReasonNoTarget Reason = "NoTargetNode"
	// ReasonLastReplica: the last healthy replica of one of its volumes is here.
	ReasonLastReplica Reason = "LastHealthyReplica"
)

// obstacle is why a VM cannot move.
type obstacle struct {
	reason  Reason
	message string
}

// movable tells why the instance cannot leave the node by live migration; nil when
// it can.
func (s *situation) movable(i *Instance) *obstacle {
	if c := i.condition(kubevirtv1.VirtualMachineInstanceIsMigratable); c != nil && c.Status == corev1.ConditionFalse {
		return &obstacle{ReasonNotLiveMigratable, fmt.Sprintf("cannot be live-migrated: %s: %s", c.Reason, c.Message)}
	}
	if rule := s.placement(i); !s.anyHosts(rule) {
		return &obstacle{ReasonNoTarget, "no other ready, schedulable node out of maintenance satisfies its " + rule.describe()}
	}
	for n := range s.Volumes {
		v := &s.Volumes[n]
		if s.usedBy(v, i.VMI.Namespace, Claims(&i.VMI.Spec)) && s.lastHealthyHere(v) {
			return &obstacle{ReasonLastReplica, fmt.Sprintf("the last healthy replica of its volume %s is on this node", v.Name)}
		}
	}
	return nil
}

// placement is what a node must offer to host a VM.
type placement struct {
	pod      *corev1.Pod
	required nodeaffinity.RequiredNodeAffinity
	selected bool
}

func (p placement) describe() string {
	if p.selected {
		return "node selector, required node affinity and tolerations"
	}
	return "tolerations"
}

// placement reads the owner's rules from the VM's template, and the launcher pod's
// own selector, which holds what KubeVirt adds: CPU model, features, host name. A
// selector that only the VMI carries is left over from an earlier move, and the
// owner's wish no longer, unless it comes from the VM's instancetype, which KubeVirt
// applies to the VMI alone.
func (s *situation) placement(i *Instance) placement {
	spec := &i.VMI.Spec
	if i.VM != nil && i.VM.Spec.Template != nil {
		spec = &i.VM.Spec.Template.Spec
	}
	selector := map[string]string{kubevirtv1.NodeSchedulable: "true"}
	for _, launcher := range i.Launchers {
		for key, value := range launcher.Spec.NodeSelector {
			if leftover, ok := i.VMI.Spec.NodeSelector[key]; ok && leftover == value {
				if _, wanted := spec.NodeSelector[key]; !wanted && !fromInstancetype(i.VM, key) {
					continue
				}
			}
			selector[key] = value
		}
	}
	return newPlacement(spec, selector)
}

// fromInstancetype reports whether a selector of the VMI that its VM's template lacks may
// be the instancetype's. A host's name is not: instancetypes are for many VMs.
func fromInstancetype(vm *kubevirtv1.VirtualMachine, key string) bool {
	return vm != nil && vm.Spec.Instancetype != nil && key != corev1.LabelHostname
}

// instancetypeSelector is what of the VMI's node selector is the instancetype's.
func (i *Instance) instancetypeSelector() map[string]string {
	selector := maps.Clone(i.VMI.Spec.NodeSelector)
	maps.DeleteFunc(selector, func(key, _ string) bool { return !fromInstancetype(i.VM, key) })
	if i.VM.Spec.Template != nil {
		maps.DeleteFunc(selector, func(key, _ string) bool { _, own := i.VM.Spec.Template.Spec.NodeSelector[key]; return own })
	}
	return selector
}

// stoppedPlacement is the rule of a VM that does not run.
func stoppedPlacement(v *StoppedVM) placement {
	spec := &kubevirtv1.VirtualMachineInstanceSpec{}
	if v.VM.Spec.Template != nil {
		spec = &v.VM.Spec.Template.Spec
	}
	selector := map[string]string{kubevirtv1.NodeSchedulable: "true"}
	maps.Copy(selector, v.Record.NodeSelector)
	return newPlacement(spec, selector)
}

func newPlacement(spec *kubevirtv1.VirtualMachineInstanceSpec, selector map[string]string) placement {
	for key, value := range spec.NodeSelector {
		selector[key] = value
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: selector, Affinity: spec.Affinity, Tolerations: spec.Tolerations}}
	return placement{
		pod:      pod,
		required: nodeaffinity.GetRequiredNodeAffinity(pod),
		selected: len(selector) > 1 || (spec.Affinity != nil && spec.Affinity.NodeAffinity != nil),
	}
}

// hosts reports whether a node satisfies the rule; availability is the caller's.
func (p placement) hosts(node *corev1.Node) bool {
	if match, err := p.required.Match(node); err != nil || !match {
		return false
	}
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, p.pod.Spec.Tolerations, func(t *corev1.Taint) bool {
		switch t.Key {
		case corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
			// They follow, a moment later, what the caller has read from the node itself: of two
			// nodes that are taken one right after the other, the first still has its own.
			return false
		}
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, false)
	return !untolerated
}

// anyHosts remembers the rules that no node satisfies: that takes a look at every node
// to find out, and VMs that cannot move tend to share the rule that keeps them.
func (s *situation) anyHosts(rule placement) bool {
	if slices.ContainsFunc(s.unplaceable, rule.same) {
		return false
	}
	if slices.ContainsFunc(s.candidates, rule.hosts) {
		return true
	}
	s.unplaceable = append(s.unplaceable, rule)
	return false
}

func (p placement) same(other placement) bool {
	a, b := &p.pod.Spec, &other.pod.Spec
	return maps.Equal(a.NodeSelector, b.NodeSelector) && reflect.DeepEqual(a.Affinity, b.Affinity) && reflect.DeepEqual(a.Tolerations, b.Tolerations)
}

// Claims are the names of the PersistentVolumeClaims that a VM's volumes use. A
// DataVolume's claim has its name.
func Claims(spec *kubevirtv1.VirtualMachineInstanceSpec) []string {
	var names []string
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.DataVolume != nil:
			names = append(names, v.DataVolume.Name)
		case v.Ephemeral != nil && v.Ephemeral.PersistentVolumeClaim != nil:
			names = append(names, v.Ephemeral.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}
