package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Whole maintenances in random order: nodes are requested, forced, left and uncordoned,
// VMs relabelled, started and stopped by their owners, nodes lose power and return, the
// manager forgets what it had in memory. A failing run prints how to repeat it
// (-rapid.seed).
func TestStoriesInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		members := rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "members")
		for n := range members {
			w.addNode(fmt.Sprintf("cp%d", n+1), true)
		}
		w.addNode("w1", false)
		w.addNode("w2", false)
		strategies := []string{"", "Migrate", "Shutdown", "ShutdownAndRestartAfterEnable", "ShutdownAndRestartAfterDisable", "nonsense"}
		runs := []kubevirtv1.VirtualMachineRunStrategy{kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyManual}
		for n := range rapid.IntRange(1, 6).Draw(t, "VMs") {
			// Most happens around one node: spread evenly, little would ever meet.
			node := rapid.SampledFrom([]string{"w1", "w1", "w2", "cp1"}).Draw(t, "node")
			w.addVM(fmt.Sprintf("vm%d", n+1), node, rapid.SampledFrom(strategies).Draw(t, "strategy"), rapid.SampledFrom(runs).Draw(t, "run"))
		}
		touched := map[string]bool{}
		names := append(sorted(w.nodes), slices.Repeat([]string{"w1"}, len(w.nodes))...)
		node := func() *corev1.Node { return w.nodes[rapid.SampledFrom(names).Draw(t, "node")] }
		vm := func() *kubevirtv1.VirtualMachine {
			return w.vms[rapid.SampledFrom(sorted(w.vms)).Draw(t, "vm")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if len(w.violations) > 0 {
					t.Fatalf("%s\n%s", w.violations, w.describe())
				}
			},
			"pass":       func(*rapid.T) { w.pass(node().Name) },
			"pass again": func(*rapid.T) { w.pass(node().Name) },
			"pass VM":    func(*rapid.T) { w.passVM(vm().Name) },
			"kubevirt":   func(t *rapid.T) { w.kubevirt(vm().Name, rapid.Bool().Draw(t, "fails")) },
			"time":       func(*rapid.T) { w.now = w.now.Add(15 * time.Second) },
			"crash":      func(*rapid.T) { clear(w.attempts) },
			"request":    func(*rapid.T) { node().Annotations[maintenance.AnnotationRequested] = "true" },
			"force": func(*rapid.T) {
				n := node()
				n.Annotations[maintenance.AnnotationRequested], n.Annotations[maintenance.AnnotationForced] = "true", "true"
			},
			"take back": func(*rapid.T) { delete(node().Annotations, maintenance.AnnotationRequested) },
			"leave":     func(*rapid.T) { delete(node().Annotations, maintenance.AnnotationStatus) },
			"cordon": func(t *rapid.T) {
				if n := node(); !maintenance.Engaged(n) && n.Annotations[maintenance.AnnotationRequested] == "" {
					n.Spec.Unschedulable, w.cordonedByUser[n.Name] = true, true
				}
			},
			"uncordon": func(*rapid.T) {
				n := node()
				n.Spec.Unschedulable = false
				delete(w.cordonedByUser, n.Name)
			},
			"relabel": func(t *rapid.T) {
				v := vm()
				v.Labels[maintenance.LabelStrategy] = rapid.SampledFrom(strategies).Draw(t, "strategy")
				touched[v.Name] = true
			},
			"owner stops": func(*rapid.T) {
				v := vm()
				off := kubevirtv1.RunStrategyHalted
				v.Spec.RunStrategy = &off
				touched[v.Name] = true
			},
			"owner starts": func(*rapid.T) {
				v := vm()
				on := kubevirtv1.RunStrategyAlways
				v.Spec.RunStrategy = &on
				touched[v.Name] = true
			},
			"power": func(t *rapid.T) {
				n := node()
				n.Status.Conditions[0].Status = rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionUnknown}).Draw(t, "ready")
			},
		})
		end(t, w, touched)
	})
}

// end has everything over, and checks that everything is as it was meant to be.
func end(t *rapid.T, w *world, touched map[string]bool) {
	for _, node := range w.nodes {
		node.Status.Conditions[0].Status = corev1.ConditionTrue
		delete(node.Annotations, maintenance.AnnotationRequested)
		delete(node.Annotations, maintenance.AnnotationForced)
		delete(node.Annotations, maintenance.AnnotationStatus)
	}
	settled := w.settle()
	switch {
	case len(w.violations) > 0:
		t.Fatalf("%s\n%s", w.violations, w.describe())
	case !settled:
		t.Fatalf("it never settles\n%s", w.describe())
	}
	room := false
	for name, node := range w.nodes {
		if maintenance.Engaged(node) || maintenance.PhaseOf(node) == maintenance.PhaseValidating {
			t.Fatalf("node %s is still in maintenance\n%s", name, w.describe())
		}
		if node.Spec.Unschedulable && !w.cordonedByUser[name] {
			t.Fatalf("node %s is cordoned and nobody did it\n%s", name, w.describe())
		}
		room = room || !node.Spec.Unschedulable
	}
	if !room {
		return
	}
	for name, vm := range w.vms {
		if vm.Annotations[maintenance.AnnotationVMRecord] != "" || vm.Annotations[maintenance.AnnotationMarker] != "" {
			t.Fatalf("VM %s still waits\n%s", name, w.describe())
		}
		if w.vmis[name] == nil && !touched[name] && w.starts[name] < w.stops[name] && restarts(vm) && !w.forcedOff(name) {
			t.Fatalf("VM %s is off\n%s", name, w.describe())
		}
	}
}

func restarts(vm *kubevirtv1.VirtualMachine) bool {
	strategy, _, _ := maintenance.StrategyOf(vm.Labels)
	return strategy.Restarts()
}
