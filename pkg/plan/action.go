package plan

import (
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Action is one thing to do: for the plan's node, or for the object that it carries as
// that was when the plan was made, so that the executor can make the API server refuse
// what has changed since. Each is idempotent.
//
//sumtype:decl
type Action interface{ action() }

// Cordon makes the node unschedulable, and says so in the record, in one write.
type Cordon struct{ Record *maintenance.NodeRecord }

// Uncordon makes the node schedulable.
type Uncordon struct{}

// RemoveTaint takes the drain taint away.
type RemoveTaint struct{ Key string }

// Evict asks for the eviction of a pod, by UID and with the pod's own grace period.
type Evict struct {
	Pod *corev1.Pod
	// VMI is set for launcher pods.
	VMI *kubevirtv1.VirtualMachineInstance
}

// Migrate creates a migration of Drydock's own.
type Migrate struct {
	VMI *kubevirtv1.VirtualMachineInstance
	ID  string
}

// Withdraw cancels the evacuation of a VMI.
type Withdraw struct {
	VMI  *kubevirtv1.VirtualMachineInstance
	Node string
	// Why is remembered where the VM steps back behind others.
	Why string
}

// DeleteMigration withdraws a migration.
type DeleteMigration struct {
	Migration *kubevirtv1.VirtualMachineInstanceMigration
	VMI       *kubevirtv1.VirtualMachineInstance
	// Why is remembered where the VM steps back behind others.
	Why string
}

// DeleteVMI removes a VMI that no VM owns, under force.
type DeleteVMI struct {
	VMI *kubevirtv1.VirtualMachineInstance
}

// Halt stops a VM and leaves the record, and the marker where it will be restarted,
// in the same write.
type Halt struct {
	VM *kubevirtv1.VirtualMachine
	// VMI is the instance that the decision rests on.
	VMI    *kubevirtv1.VirtualMachineInstance
	Record *maintenance.VMRecord
}

// Start restores a VM's run strategy, with the record saying that it is starting.
type Start struct {
	VM     *kubevirtv1.VirtualMachine
	Record *maintenance.VMRecord
}

// CallStart calls KubeVirt's start subresource for a VM whose restored run strategy
// did not start it.
type CallStart struct{ VM *kubevirtv1.VirtualMachine }

// Forget takes marker and record off a VM.
type Forget struct {
	VM *kubevirtv1.VirtualMachine
	// Told is what the VM's owner hears of it, nil for nothing.
	Told *Event
}

func (Cordon) action()          {}
func (Uncordon) action()        {}
func (RemoveTaint) action()     {}
func (Evict) action()           {}
func (Migrate) action()         {}
func (Withdraw) action()        {}
func (DeleteMigration) action() {}
func (DeleteVMI) action()       {}
func (Halt) action()            {}
func (Start) action()           {}
func (CallStart) action()       {}
func (Forget) action()          {}
