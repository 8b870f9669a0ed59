package kubevirt

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kubevirtclient "kubevirt.io/client-go/kubevirt/typed/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// Writer makes the few changes to virtual machines that maintenance needs. Writes to
// a VM carry the resourceVersion that the decision rests on: what changed since is
// answered with a conflict and decided anew.
type Writer struct {
	client kubevirtclient.KubevirtV1Interface
}

// NewWriter returns a Writer on KubeVirt's typed client.
func NewWriter(client kubevirtclient.KubevirtV1Interface) *Writer { return &Writer{client: client} }

// Halt stops a VM and leaves record, run strategy and, where it will be restarted,
// the marker in the same write. spec.running and spec.runStrategy exclude each other:
// the one that the owner wrote is the one that is changed.
//
// vmi is the instance that the decision rests on. What has become of it since shows nowhere
// in the VM: it is looked at once more, and answered with a conflict when it stands
// otherwise than it was seen. An owner may have stopped the VM meanwhile, or moved it.
func (w *Writer) Halt(ctx context.Context, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, record *maintenance.VMRecord) error {
	now, err := liveVMI(ctx, w.client, vmi.Namespace, vmi.Name, vmi.UID)
	if err != nil {
		return err
	}
	if now == nil || standingOf(now) != standingOf(vmi) {
		return changed("virtualmachineinstances", vmi)
	}
	annotations := map[string]any{
		maintenance.AnnotationVMRecord:    record.Encode(),
		maintenance.AnnotationRunStrategy: record.RunStrategy,
		maintenance.AnnotationMarker:      nil,
	}
	if record.Restart != maintenance.RestartNever {
		annotations[maintenance.AnnotationMarker] = record.Node
	}
	spec := map[string]any{"runStrategy": kubevirtv1.RunStrategyHalted}
	if byRunning(vm) {
		spec = map[string]any{"running": false}
	}
	return w.patch(ctx, vm, annotations, spec)
}

// Start restores the run strategy, with the record saying that the VM is starting. A
// recorded strategy that cannot be used becomes RerunOnFailure.
func (w *Writer) Start(ctx context.Context, vm *kubevirtv1.VirtualMachine, record *maintenance.VMRecord) error {
	strategy := kubevirtv1.VirtualMachineRunStrategy(record.RunStrategy)
	switch strategy {
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyOnce:
	default:
		strategy = kubevirtv1.RunStrategyRerunOnFailure
	}
	spec := map[string]any{"runStrategy": strategy}
	if byRunning(vm) {
		spec = map[string]any{"running": true}
	}
	return w.patch(ctx, vm, map[string]any{maintenance.AnnotationVMRecord: record.Encode()}, spec)
}

// byRunning reports that the owner uses spec.running. What the spec says now decides:
// the owner may have changed over while the VM was off, and KubeVirt refuses both.
func byRunning(vm *kubevirtv1.VirtualMachine) bool {
	return vm.Spec.Running != nil && vm.Spec.RunStrategy == nil
}

// Forget takes marker and record off a VM; the run strategy annotation stays, since
// Harvester reads it too.
func (w *Writer) Forget(ctx context.Context, vm *kubevirtv1.VirtualMachine) error {
	return w.patch(ctx, vm, map[string]any{maintenance.AnnotationMarker: nil, maintenance.AnnotationVMRecord: nil}, nil)
}

func (w *Writer) patch(ctx context.Context, vm *kubevirtv1.VirtualMachine, annotations, spec map[string]any) error {
	body := map[string]any{"metadata": map[string]any{"resourceVersion": vm.ResourceVersion, "annotations": annotations}}
	if spec != nil {
		body["spec"] = spec
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("VM %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	if _, err := w.client.VirtualMachines(vm.Namespace).Patch(ctx, vm.Name, types.MergePatchType, raw, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("VM %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	return nil
}

// CallStart calls the start subresource. KubeVirt answers 409 when the VM runs, and 500
// when a start has been asked for already, which is looked at before: both are what was
// wanted. A VM that was halted meanwhile it would start by taking its strategy for Always:
// a strategy other than the one that was seen is answered with a conflict.
func (w *Writer) CallStart(ctx context.Context, vm *kubevirtv1.VirtualMachine) error {
	now, err := liveVM(ctx, w.client, vm)
	switch {
	case err != nil:
		return err
	case now == nil || plan.RunStrategyOf(now) != plan.RunStrategyOf(vm):
		return changed("virtualmachines", vm)
	case len(now.Status.StateChangeRequests) > 0:
		return nil
	}
	err = w.client.VirtualMachines(vm.Namespace).Start(ctx, vm.Name, &kubevirtv1.StartOptions{})
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("start of VM %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	return nil
}

// Withdraw cancels the evacuation of a VMI from a node. KubeVirt checks that the node
// is the one in the VMI's status, and refuses while the node has the drain taint. A
// VMI that is gone needs no evacuation.
func (w *Writer) Withdraw(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, node string) error {
	err := w.client.VirtualMachineInstances(vmi.Namespace).EvacuateCancel(ctx, vmi.Name, &kubevirtv1.EvacuateCancelOptions{EvacuationNodeName: node})
	if apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return fmt.Errorf("evacuation of VMI %s/%s: KubeVirt has no evacuate/cancel, which it has from 1.7 on: %w", vmi.Namespace, vmi.Name, err)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("evacuation of VMI %s/%s: %w", vmi.Namespace, vmi.Name, err)
	}
	return nil
}

// Migrate creates a migration of Drydock's own, for a VM that KubeVirt would shut
// down on an eviction.
func (w *Writer) Migrate(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, id string) error {
	migration := &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "drydock-", Namespace: vmi.Namespace, Labels: map[string]string{maintenance.LabelOwnMigration: id}},
		Spec:       kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: vmi.Name},
	}
	if _, err := w.client.VirtualMachineInstanceMigrations(vmi.Namespace).Create(ctx, migration, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("migration of VMI %s/%s: %w", vmi.Namespace, vmi.Name, err)
	}
	return nil
}

// DeleteMigration withdraws a migration; KubeVirt aborts it if it runs.
func (w *Writer) DeleteMigration(ctx context.Context, m *kubevirtv1.VirtualMachineInstanceMigration) error {
	err := w.client.VirtualMachineInstanceMigrations(m.Namespace).Delete(ctx, m.Name, *metav1.NewPreconditionDeleteOptions(string(m.UID)))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("migration %s/%s: %w", m.Namespace, m.Name, err)
	}
	return nil
}

// DeleteVMI removes a VMI that no VM owns, as it was when that was decided: one that has
// moved meanwhile is not deleted.
func (w *Writer) DeleteVMI(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) error {
	err := w.client.VirtualMachineInstances(vmi.Namespace).Delete(ctx, vmi.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &vmi.UID, ResourceVersion: &vmi.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("VMI %s/%s: %w", vmi.Namespace, vmi.Name, err)
	}
	return nil
}
