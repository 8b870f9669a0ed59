package webhook

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// Homes knows the VMs that Drydock stopped and is to start again, and the node that each
// came from. It follows the VMs' events, since a look at the VM would come too late:
// its marker goes as soon as the new VMI exists, and the launcher pod is made after that.
// What it has missed, as after a start of the process, costs a preference and no more.
type Homes struct {
	mu   sync.Mutex
	byVM map[types.NamespacedName]Home
}

// Home is where a VM came from.
type Home struct {
	// Node and UID are the node; a new one of the same name is not the VM's own.
	Node string
	UID  types.UID
	// id is the maintenance, elsewhere that the VM may be started on another node before
	// it is over.
	id        string
	elsewhere bool
	// vm is the VM's UID, starting that Drydock has begun to start it.
	vm       types.UID
	starting bool
}

// calls reports that a VM that starts now is to come back to the node, as it is now: it
// is the VM's own, and the VM waited until it was left. One that may run elsewhere has
// been started there while its maintenance lasts, and comes back when that is over: the
// node was left before it was empty, or no other one could take the VM.
func (h Home) calls(node *corev1.Node) bool {
	if node.UID != h.UID {
		return false
	}
	standing, err := plan.StandingOf(node, h.id)
	// Its record outlasts what is started on leaving.
	left := standing == plan.Over || err == nil && node.Annotations[maintenance.AnnotationStatus] == ""
	return !h.elsewhere || left
}

// NewHomes returns an empty Homes.
func NewHomes() *Homes { return &Homes{byVM: map[types.NamespacedName]Home{}} }

// Observe takes note of a VM as it is now.
func (h *Homes) Observe(vm *kubevirtv1.VirtualMachine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := types.NamespacedName{Namespace: vm.Namespace, Name: vm.Name}
	if home, ok := homeOf(vm); ok {
		h.byVM[key] = home
		return
	}
	// Between the VMI and its pod the marker is gone already. Somebody else's start takes
	// it off too, but from a VM that Drydock was not starting.
	if known := h.byVM[key]; !known.starting || known.vm != vm.UID || vm.Status.Ready || vm.DeletionTimestamp != nil || plan.RunStrategyOf(vm) == kubevirtv1.RunStrategyHalted {
		delete(h.byVM, key)
	}
}

// Gone forgets a VM that was deleted.
func (h *Homes) Gone(vm *kubevirtv1.VirtualMachine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.byVM, types.NamespacedName{Namespace: vm.Namespace, Name: vm.Name})
}

// Of returns the home of a VM, if it has one.
func (h *Homes) Of(namespace, name string) (Home, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	home, ok := h.byVM[types.NamespacedName{Namespace: namespace, Name: name}]
	return home, ok
}

// homeOf reads it from marker and record. A marker alone is not Drydock's.
func homeOf(vm *kubevirtv1.VirtualMachine) (Home, bool) {
	record, err := maintenance.VMRecordOf(vm)
	if err != nil || record == nil || record.Node == "" || vm.Annotations[maintenance.AnnotationMarker] != record.Node {
		return Home{}, false
	}
	point := plan.RestartOf(vm, record)
	return Home{
		Node: record.Node, UID: record.NodeUID, id: record.ID, elsewhere: point == maintenance.RestartAfterEnable,
		vm: vm.UID, starting: record.Starting,
	}, point != maintenance.RestartNever
}
