package webhook

import (
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// launcher is what decides of a launcher pod.
type launcher struct {
	Metadata struct {
		Labels          map[string]string       `json:"labels"`
		OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec *struct {
		Affinity *struct {
			NodeAffinity *struct {
				Preferred []any `json:"preferredDuringSchedulingIgnoredDuringExecution"`
			} `json:"nodeAffinity"`
		} `json:"affinity"`
	} `json:"spec"`
}

// vmName is the name of the pod's VM: its VMI's, which owns it. The labels are for a pod
// whose owner cannot be told.
func (l *launcher) vmName() string {
	if name := plan.VMIOf(&metav1.ObjectMeta{OwnerReferences: l.Metadata.OwnerReferences}); name != "" {
		return name
	}
	return maintenance.LauncherVMName(l.Metadata.Labels)
}

// launcherMutator makes the scheduler prefer a VM's own node when the VM comes back
// after maintenance. It is the pod that is changed, not the VMI: KubeVirt patches a
// VMI's affinity back to its template's.
type launcherMutator struct {
	homes *Homes
	nodes Nodes
}

// review never refuses, whatever arrives: a preference is no reason to keep a VM off.
func (l launcherMutator) review(request *admissionv1.AdmissionRequest) (verdict, error) {
	if request.Operation != admissionv1.Create {
		return verdict{}, nil
	}
	_, pod, err := objects[launcher](request)
	if err != nil || pod == nil || pod.Spec == nil {
		return verdict{}, nil //nolint:nilerr // The API server says better what is wrong with a pod.
	}
	home, ok := l.homes.Of(request.Namespace, pod.vmName())
	if !ok {
		return verdict{}, nil
	}
	node, err := l.nodes.Get(home.Node)
	if err != nil || !home.calls(node) {
		return verdict{}, nil //nolint:nilerr // The node is gone: there is nothing to prefer.
	}
	hostname := node.Labels[corev1.LabelHostname]
	if hostname == "" {
		return verdict{}, nil
	}
	return verdict{patch: prefer(pod, hostname)}, nil
}

// prefer adds a preferred term of the highest weight to what the pod has. Kubelet and
// scheduler know a node by its label; a node's name may be another.
func prefer(pod *launcher, hostname string) []operation {
	term := corev1.PreferredSchedulingTerm{Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{hostname}},
	}}}
	at := path("spec", "affinity")
	switch affinity := pod.Spec.Affinity; {
	case affinity == nil:
		return []operation{{Op: "add", Path: at, Value: corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{term}}}}}
	case affinity.NodeAffinity == nil:
		return []operation{{Op: "add", Path: at + path("nodeAffinity"), Value: corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{term}}}}
	case affinity.NodeAffinity.Preferred == nil:
		return []operation{{Op: "add", Path: at + path("nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"), Value: []corev1.PreferredSchedulingTerm{term}}}
	}
	return []operation{{Op: "add", Path: at + path("nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution", "-"), Value: term}}
}
