package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation"
	virtv1 "kubevirt.io/api/core/v1"
)

const (
	defaultCPU      = "32"
	defaultMemory   = "64Gi"
	defaultCPUModel = "Skylake-Server"
	// MachineType is what a guest of the alias q35 runs as. virt-controller turns
	// a VMI's concrete type into a node selector for migration targets, so hosts
	// have to announce both.
	machineAlias = "q35"
	machineType  = "pc-q35-9.2"

	kubeletVersion = "v1.34.4"
)

// CPUFeatures are announced twice, as present and as required by the host
// model: a target has to offer every feature the source requires.
var cpuFeatures = []string{"vmx", "pdpe1gb"}

// cpuModelOf returns the host model; a value that cannot be a label's name part
// would make every write of the Node fail.
func cpuModelOf(annotations map[string]string) string {
	model := annotations[annotationCPUModel]
	if model == "" || len(validation.IsQualifiedName(model)) > 0 || strings.Contains(model, "/") {
		return defaultCPUModel
	}
	return model
}

// register does what kubelet's registration and virt-handler's node labeller
// do: labels first, so that a Ready host never lacks them.
func (h *hosts) register(ctx context.Context, node *corev1.Node, current host, behaviour *settings) error {
	if model, set := node.Annotations[annotationCPUModel]; set && model != current.cpuModel {
		behaviour.reject(annotationCPUModel, "a CPU model's name, of letters, digits, '-', '_' and '.'")
	}
	if err := h.label(ctx, node, current); err != nil {
		return err
	}
	return h.patchStatus(ctx, node, func(status *corev1.NodeStatus) {
		fillNodeStatus(status, current, behaviour)
	})
}

// kubeletLabels are what kubelet registers a Node with.
func kubeletLabels(current host) map[string]string {
	return map[string]string{
		corev1.LabelHostname:   hostnameLabel(current.name),
		corev1.LabelArchStable: "amd64",
		corev1.LabelOSStable:   "linux",
	}
}

// handlerLabels are what virt-handler's node labeller adds.
func handlerLabels(current host) map[string]string {
	labels := map[string]string{
		virtv1.SupportedMachineTypeLabel + machineAlias:          wordTrue,
		virtv1.SupportedMachineTypeLabel + machineType:           wordTrue,
		virtv1.HostModelCPULabel + current.cpuModel:              wordTrue,
		virtv1.SupportedHostModelMigrationCPU + current.cpuModel: wordTrue,
		virtv1.CPUModelLabel + current.cpuModel:                  wordTrue,
		virtv1.CPUModelVendorLabel + "Intel":                     wordTrue,
	}
	for _, feature := range cpuFeatures {
		labels[virtv1.CPUFeatureLabel+feature] = wordTrue
		labels[virtv1.HostModelRequiredFeaturesLabel+feature] = wordTrue
	}
	return labels
}

// runsHandler tells whether virt-handler's pod is up on a host. A host that the
// DaemonSet does not reach, such as a tainted witness, takes part in nothing
// that is KubeVirt's.
func (h *hosts) runsHandler(name string) (bool, error) {
	objects, err := h.pods.ByIndex(indexPodsByNode, name)
	if err != nil {
		return false, fmt.Errorf("list the pods of host %q: %w", name, err)
	}
	for _, object := range objects {
		pod := object.(*corev1.Pod)
		if isVirtHandler(pod) && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			return true, nil
		}
	}
	return false, nil
}

func isVirtHandler(pod *corev1.Pod) bool {
	return pod.Labels[virtv1.AppLabel] == "virt-handler"
}

// hostnameLabel cuts names that are legal for a Node (253 characters) but not
// for a label value (63).
func hostnameLabel(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	return strings.TrimRight(name[:validation.LabelValueMaxLength], "-.")
}

// label adds what is missing. A label that a scenario has changed on purpose is
// left alone, except that a host offers its own model and no other.
func (h *hosts) label(ctx context.Context, node *corev1.Node, current host) error {
	handled, err := h.runsHandler(node.Name)
	if err != nil {
		return err
	}
	wanted := kubeletLabels(current)
	if handled {
		maps.Copy(wanted, handlerLabels(current))
	}
	labels := map[string]any{}
	for key, value := range wanted {
		if _, set := node.Labels[key]; !set {
			labels[key] = value
		}
	}
	for key := range node.Labels {
		model, isModel := strings.CutPrefix(key, virtv1.HostModelCPULabel)
		if isModel && model != current.cpuModel {
			labels[key] = nil
			labels[virtv1.SupportedHostModelMigrationCPU+model] = nil
			labels[virtv1.CPUModelLabel+model] = nil
		}
	}
	metadata := map[string]any{"uid": node.UID, "labels": labels}
	if _, beats := node.Annotations[virtv1.VirtHandlerHeartbeat]; handled && !beats {
		labels[virtv1.NodeSchedulable] = wordTrue
		metadata["annotations"] = map[string]any{virtv1.VirtHandlerHeartbeat: time.Now().UTC().Format(time.RFC3339)}
	}
	if len(labels) == 0 {
		return nil
	}
	return h.patchNode(ctx, node.Name, metadata)
}

func (h *hosts) patchNode(ctx context.Context, name string, metadata map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode the patch of node %q: %w", name, err)
	}
	if _, err := h.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch node %q: %w", name, err)
	}
	return nil
}

// patchStatus writes a Node's status, and nothing when nothing differs. The
// patch carries the UID, so that it never hits a new Node of the same name.
func (h *hosts) patchStatus(ctx context.Context, node *corev1.Node, edit func(*corev1.NodeStatus)) error {
	changed := node.DeepCopy()
	edit(&changed.Status)
	if equality.Semantic.DeepEqual(node.Status, changed.Status) {
		return nil
	}
	before, err := json.Marshal(corev1.Node{Status: node.Status})
	if err != nil {
		return fmt.Errorf("encode the status of node %q: %w", node.Name, err)
	}
	after, err := json.Marshal(corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: node.UID}, Status: changed.Status})
	if err != nil {
		return fmt.Errorf("encode the status of node %q: %w", node.Name, err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Node{})
	if err != nil {
		return fmt.Errorf("compute the status patch of node %q: %w", node.Name, err)
	}
	if _, err := h.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("patch the status of node %q: %w", node.Name, err)
	}
	return nil
}

func fillNodeStatus(status *corev1.NodeStatus, current host, behaviour *settings) {
	// Devices that a scenario announces by itself, such as a GPU, stay.
	resources := maps.Clone(status.Capacity)
	if resources == nil {
		resources = corev1.ResourceList{}
	}
	resources[corev1.ResourceCPU] = behaviour.quantity(annotationCPU, defaultCPU)
	resources[corev1.ResourceMemory] = behaviour.quantity(annotationMemory, defaultMemory)
	resources[corev1.ResourceEphemeralStorage] = resource.MustParse("500Gi")
	resources[corev1.ResourcePods] = *resource.NewQuantity(podsPerHost, resource.DecimalSI)
	for _, device := range []corev1.ResourceName{"devices.kubevirt.io/kvm", "devices.kubevirt.io/tun", "devices.kubevirt.io/vhost-net"} {
		resources[device] = resource.MustParse("1k")
	}
	status.Capacity, status.Allocatable = resources, maps.Clone(resources)
	status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: current.ip},
		{Type: corev1.NodeHostName, Address: current.name},
	}
	status.NodeInfo = corev1.NodeSystemInfo{
		Architecture: "amd64", OperatingSystem: "linux", OSImage: "Drydock simulated host", KernelVersion: "6.12.0",
		KubeletVersion: kubeletVersion, ContainerRuntimeVersion: "simulated://1.0",
		MachineID: string(current.uid), SystemUUID: string(current.uid), BootID: status.NodeInfo.BootID,
	}
	now := metav1.Now()
	setNodeCondition(status, corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available", now)
	setNodeCondition(status, corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure", now)
	setNodeCondition(status, corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available", now)
	setNodeCondition(status, corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status", now)
}

// setNodeCondition touches the heartbeat only together with a change; the
// regular refresh is the beat loop's.
func setNodeCondition(status *corev1.NodeStatus, kind corev1.NodeConditionType, value corev1.ConditionStatus, reason, message string, now metav1.Time) {
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if condition.Type != kind {
			continue
		}
		if condition.Status != value {
			condition.LastTransitionTime = now
		}
		if condition.Status != value || condition.Reason != reason {
			condition.Status, condition.Reason, condition.Message, condition.LastHeartbeatTime = value, reason, message, now
		}
		return
	}
	status.Conditions = append(status.Conditions, corev1.NodeCondition{
		Type: kind, Status: value, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now,
	})
}
