// Package labelsync copies labels of a running virtual machine: from the VM to its VMI,
// and from the VMI to its launcher pods. KubeVirt does that only when it creates them,
// so that a label set later is not where other tools look for it. Drydock's own
// decisions rest on the VM alone; the copies are a courtesy. It is ring 3.
//
// # What may be written
//
// A VMI is changed by a patch of its labels alone. virt-api's admitter of VMI updates
// (KubeVirt 1.7.0, vmi-update-admitter.go) refuses to everybody but KubeVirt's own
// service accounts (virt-api, virt-controller, virt-handler, the synchronization
// controller) a change of the spec, and of six labels: kubevirt.io/created-by,
// migrationJobUID, nodeName, migrationTargetNodeName, schedulable and
// install-strategy. Any other label may be changed by any account that RBAC lets patch
// virtualmachineinstances, so Drydock's own account will do, and the settings refuse
// every key of KubeVirt's domain. An update of the whole object would not do: a field
// that this build of the API types does not know would be a change of the spec. Status
// that others write in an update is put back by virt-api's mutator.
//
// KubeVirt itself copies labels named in its additionalLauncherLabelsSync setting from
// the VM's template, not from the VM. A key that stands in both lists must have the same
// value in both places.
//
// # What may be removed
//
// A listed key is always that of the VM: without it there, it goes everywhere. Any other
// key with the prefix may have been put on a pod by somebody else, so only those that
// Drydock had copied are removed, and it must remember which those are. It does so in an
// annotation on the pod, see maintenance.AnnotationCopied: it is written in the same
// patch as the labels, costs no request and no memory, survives a crash, and ends with
// the pod. The field managers that the API server records would tell as much, but a
// client may drop them, and nobody looks there.
//
// After a migration KubeVirt has given the labels to the new pod, which knows nothing
// yet: it goes by what its predecessors say, which stay as long as the VMI.
//
// # When
//
// The controllers have queues of their own, on the caches that everybody shares: a label
// that cannot be written is tried again without repeating the passes that maintenance
// makes over the same VM, and is never in front of them.
package labelsync
