package plan

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// kubevirt takes one step for one VM: what its controllers and the guest would do next.
// fails makes a running migration fail.
func (w *world) kubevirt(name string, fails bool) {
	vm, vmi := w.vms[name], w.vmis[name]
	strategy := RunStrategyOf(vm)
	before := vm.Status.RunStrategy
	vm.Status.RunStrategy = strategy
	switch {
	case vmi == nil:
		if strategy == kubevirtv1.RunStrategyAlways || (strategy == kubevirtv1.RunStrategyRerunOnFailure && before == kubevirtv1.RunStrategyHalted) {
			w.place(vm)
		}
	case vmi.DeletionTimestamp != nil:
		if w.reachable(vmi.Status.NodeName) {
			delete(w.vmis, name)
		}
	case strategy == kubevirtv1.RunStrategyHalted:
		now := metav1.NewTime(w.now)
		vmi.DeletionTimestamp = &now
	default:
		w.migrate(vmi, fails)
	}
}

func (w *world) reachable(node string) bool {
	return w.nodes[node] == nil || maintenance.NodeReady(w.nodes[node])
}

func (w *world) migrate(vmi *kubevirtv1.VirtualMachineInstance, fails bool) {
	for _, m := range w.migrations {
		if m.Spec.VMIName != vmi.Name || m.IsFinal() {
			continue
		}
		w.advance(m, vmi, fails)
		return
	}
	if vmi.Status.EvacuationNodeName == "" || vmi.Status.EvacuationNodeName != vmi.Status.NodeName {
		return
	}
	w.serial++
	m := &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%d", w.serial), Namespace: "ns", CreationTimestamp: metav1.NewTime(w.now), Annotations: map[string]string{kubevirtv1.EvacuationMigrationAnnotation: vmi.Status.EvacuationNodeName}},
		Spec:       kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: vmi.Name},
		Status:     kubevirtv1.VirtualMachineInstanceMigrationStatus{Phase: kubevirtv1.MigrationPending},
	}
	w.migrations[m.Name] = m
}

func (w *world) advance(m *kubevirtv1.VirtualMachineInstanceMigration, vmi *kubevirtv1.VirtualMachineInstance, fails bool) {
	switch {
	case m.Status.Phase == kubevirtv1.MigrationPending:
		m.Status.Phase = kubevirtv1.MigrationRunning
	case fails || !w.reachable(vmi.Status.NodeName):
		m.Status.Phase = kubevirtv1.MigrationFailed
	default:
		if target := w.target(vmi.Status.NodeName); target != "" {
			m.Status.Phase = kubevirtv1.MigrationSucceeded
			vmi.Status.NodeName, vmi.Status.EvacuationNodeName = target, ""
		} else {
			m.Status.Phase = kubevirtv1.MigrationFailed
		}
	}
}

// target is a node that the scheduler would take, other than the given one.
func (w *world) target(not string) string {
	for _, name := range sorted(w.nodes) {
		node := w.nodes[name]
		if name != not && maintenance.NodeReady(node) && !node.Spec.Unschedulable {
			return name
		}
	}
	return ""
}

func (w *world) place(vm *kubevirtv1.VirtualMachine) {
	if node := w.target(""); node != "" {
		w.boot(vm, node)
	}
}

// settle lets everybody work until nothing changes, time included.
func (w *world) settle() bool {
	quiet := 0
	for range 400 {
		w.now = w.now.Add(time.Minute)
		before := w.describe()
		for _, name := range sorted(w.nodes) {
			w.pass(name)
		}
		for _, name := range sorted(w.vms) {
			w.passVM(name)
			w.kubevirt(name, false)
		}
		if w.describe() == before {
			quiet++
		} else {
			quiet = 0
		}
		if quiet == 5 {
			return true
		}
	}
	return false
}

func (w *world) describe() string {
	text := ""
	for _, name := range sorted(w.nodes) {
		node := w.nodes[name]
		text += fmt.Sprintf("%s cordoned=%t phase=%s status=%s ready=%t\n", name, node.Spec.Unschedulable, maintenance.PhaseOf(node), node.Annotations[maintenance.AnnotationStatus], maintenance.NodeReady(node))
		if c := maintenance.Condition(node); c != nil {
			text += "    " + c.Message + "\n"
		}
	}
	for _, name := range sorted(w.vms) {
		vm := w.vms[name]
		where := "off"
		if vmi := w.vmis[name]; vmi != nil {
			where = fmt.Sprintf("on %s deleting=%t marked=%s", vmi.Status.NodeName, vmi.DeletionTimestamp != nil, vmi.Status.EvacuationNodeName)
		}
		strategy := RunStrategyOf(vm)
		text += fmt.Sprintf("%s %s label=%q run=%s record=%s\n", name, where, vm.Labels[maintenance.LabelStrategy], strategy, vm.Annotations[maintenance.AnnotationVMRecord])
	}
	return text
}
