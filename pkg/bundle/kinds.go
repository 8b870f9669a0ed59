package bundle

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is what is read of one resource.
type kind struct {
	schema.GroupVersionResource
	// file names it in the archive.
	file string
	// own keeps it to Drydock's namespace, labels to the objects that they select.
	own    bool
	labels string
	// names are the objects that are looked for, "" for none; labelled are taken too, since a
	// release of another name has named them after itself.
	names    []string
	labelled bool
	keep     selection
}

// metadata is kept of every object; annotations are chosen by their keys.
var metadata = []string{
	"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion", "metadata.generation",
	"metadata.creationTimestamp", "metadata.deletionTimestamp", "metadata.finalizers", "metadata.labels", "metadata.ownerReferences", "metadata.annotations",
}

// instanceSpec is kept of a VMI's spec and of a VM's template: what decides where it can
// run and what a drain does to it. Nothing of cloud-init, sysprep, access credentials,
// networks, firmware or kernel arguments is.
var instanceSpec = []string{
	"nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "evictionStrategy", "terminationGracePeriodSeconds", "priorityClassName", "architecture",
	"domain.resources", "domain.cpu", "domain.memory", "domain.machine", "domain.devices.hostDevices.name", "domain.devices.hostDevices.deviceName",
	"domain.devices.gpus.name", "domain.devices.gpus.deviceName",
	"volumes.name", "volumes.persistentVolumeClaim", "volumes.dataVolume", "volumes.ephemeral.persistentVolumeClaim",
}

var migrationState = []string{
	"startTimestamp", "endTimestamp", "completed", "failed", "abortRequested", "abortStatus", "failureReason", "mode", "migrationUid",
	"sourceNode", "targetNode", "sourcePod", "targetPod", "migrationPolicyName",
}

// podFields leaves out what containers are started with and what they said at their end.
var podFields = []string{
	"spec.nodeName", "spec.nodeSelector", "spec.affinity", "spec.tolerations", "spec.terminationGracePeriodSeconds", "spec.priorityClassName",
	"spec.containers.name", "spec.containers.image", "spec.containers.resources",
	"status.phase", "status.reason", "status.message", "status.conditions", "status.startTime", "status.qosClass",
	"status.containerStatuses.name", "status.containerStatuses.ready", "status.containerStatuses.restartCount",
	"status.containerStatuses.state.running", "status.containerStatuses.state.waiting.reason",
	"status.containerStatuses.state.terminated.reason", "status.containerStatuses.state.terminated.exitCode", "status.containerStatuses.state.terminated.finishedAt",
	"status.containerStatuses.lastState.terminated.reason", "status.containerStatuses.lastState.terminated.exitCode", "status.containerStatuses.lastState.terminated.finishedAt",
}

var webhookFields = []string{
	"webhooks.name", "webhooks.rules", "webhooks.failurePolicy", "webhooks.matchConditions", "webhooks.namespaceSelector", "webhooks.objectSelector",
	"webhooks.timeoutSeconds", "webhooks.sideEffects", "webhooks.clientConfig.service",
}

var eventFields = []string{
	"type", "reason", "message", "count", "firstTimestamp", "lastTimestamp", "eventTime", "involvedObject", "source.component", "reportingComponent",
}

// What the chart and deploy/ put on Drydock's own objects.
const (
	nameLabel    = "app.kubernetes.io/name"
	drydockName  = "drydock"
	drydockLabel = nameLabel + "=" + drydockName
)

// wanted reports that an object is one of those that the kind stands for.
func (k *kind) wanted(object metav1.Object) bool {
	if len(k.names) == 0 || slices.Contains(k.names, object.GetName()) {
		return true
	}
	return k.labelled && object.GetLabels()[nameLabel] == drydockName
}

// missing are the names that are not among those found.
func (k *kind) missing(found []string) []string {
	if k.labelled && len(found) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(k.names), func(name string) bool { return name == "" || slices.Contains(found, name) })
}

func resource(group, version, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
}

// kinds are what a bundle holds, nodes first: which pods matter depends on them.
func kinds(o *Options) []kind {
	return append([]kind{
		{GroupVersionResource: resource("", "v1", "nodes"), keep: keeping(
			"spec.unschedulable", "spec.taints", "status.conditions", "status.allocatable", "status.capacity",
			"status.nodeInfo.kubeletVersion", "status.nodeInfo.kernelVersion", "status.nodeInfo.osImage", "status.nodeInfo.architecture")},
		{GroupVersionResource: resource("kubevirt.io", "v1", "kubevirts"), keep: keeping(
			"spec.configuration.migrations", "spec.configuration.evictionStrategy", "spec.configuration.developerConfiguration.featureGates",
			"status.phase", "status.observedKubeVirtVersion", "status.conditions")},
		{GroupVersionResource: resource("kubevirt.io", "v1", "virtualmachines"), keep: keeping(append(under("spec.template.spec", instanceSpec),
			"spec.running", "spec.runStrategy", "spec.template.metadata.labels",
			"status.created", "status.ready", "status.runStrategy", "status.printableStatus", "status.conditions", "status.stateChangeRequests.action",
			"status.snapshotInProgress", "status.restoreInProgress", "status.observedGeneration", "status.desiredGeneration")...)},
		{GroupVersionResource: resource("kubevirt.io", "v1", "virtualmachineinstances"), keep: keeping(append(append(under("spec", instanceSpec), under("status.migrationState", migrationState)...),
			"status.phase", "status.reason", "status.nodeName", "status.evacuationNodeName", "status.conditions", "status.migrationMethod", "status.migrationTransport",
			"status.activePods", "status.launcherContainerImageVersion", "status.phaseTransitionTimestamps",
			"status.volumeStatus.name", "status.volumeStatus.phase", "status.volumeStatus.reason", "status.volumeStatus.persistentVolumeClaimInfo")...)},
		{GroupVersionResource: resource("kubevirt.io", "v1", "virtualmachineinstancemigrations"), keep: keeping(append(under("status.migrationState", migrationState),
			"spec.vmiName", "status.phase", "status.phaseTransitionTimestamps", "status.conditions")...)},
		{GroupVersionResource: resource("", "v1", "pods"), file: "launchers", labels: o.LauncherSelector, keep: keeping(podFields...)},
		{GroupVersionResource: resource("policy", "v1", "poddisruptionbudgets"), keep: keeping("spec", "status")},
		{GroupVersionResource: resource("longhorn.io", "v1beta2", "volumes"), keep: keeping(
			"spec.nodeID", "spec.numberOfReplicas", "status.state", "status.robustness", "status.conditions", "status.currentNodeID",
			"status.kubernetesStatus.namespace", "status.kubernetesStatus.pvcName", "status.kubernetesStatus.workloadsStatus")},
		{GroupVersionResource: resource("longhorn.io", "v1beta2", "replicas"), keep: keeping(
			"spec.nodeID", "spec.volumeName", "spec.healthyAt", "spec.failedAt", "spec.active", "spec.desireState", "status.currentState")},
		{GroupVersionResource: resource("longhorn.io", "v1beta2", "engines"), keep: keeping("spec.nodeID", "spec.volumeName", "status.currentState", "status.replicaModeMap")},
		{GroupVersionResource: resource("harvesterhci.io", "v1beta1", "upgrades"), keep: keeping("spec.version", "status.conditions")},
	}, ownKinds(o)...)
}

// ownKinds are Drydock's own objects.
func ownKinds(o *Options) []kind {
	configuration := []string{o.WebhookConfiguration}
	return []kind{
		{GroupVersionResource: resource("coordination.k8s.io", "v1", "leases"), own: true, names: o.Leases, keep: keeping("spec")},
		{GroupVersionResource: resource("apps", "v1", "deployments"), own: true, labels: drydockLabel, keep: keeping(
			"spec.replicas", "spec.template.spec.containers.name", "spec.template.spec.containers.image", "spec.template.spec.containers.args",
			"spec.template.spec.containers.env.name", "spec.template.spec.containers.resources", "spec.template.spec.tolerations", "status")},
		{GroupVersionResource: resource("", "v1", "pods"), file: "own-pods", own: true, labels: drydockLabel, keep: keeping(podFields...)},
		{GroupVersionResource: resource("", "v1", "services"), own: true, labels: drydockLabel, keep: keeping("spec.type", "spec.ports", "spec.selector")},
		{GroupVersionResource: resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations"), names: configuration, labelled: true, keep: keeping(webhookFields...)},
		{GroupVersionResource: resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"), names: configuration, labelled: true, keep: keeping(webhookFields...)},
	}
}
