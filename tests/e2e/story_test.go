package e2e

import (
	"testing"

	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"

	"github.com/drydock-dev/drydock/tests/operator"
)

// The whole way in and out, with a VM of each kind: what the demo shows.
func TestANodeGoesIntoMaintenanceAndComesBack(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	for name, strategy := range map[string]string{
		"plain": "", "moves": "Migrate", "off": "Shutdown",
		"soon": "ShutdownAndRestartAfterEnable", "later": "ShutdownAndRestartAfterDisable",
	} {
		vm := c.VM(ns, name).On(host).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate)
		if strategy != "" {
			vm.Strategy(strategy)
		}
		vm.Create(t)
	}
	history := c.RecordNode(t, host)

	operator.Request(t, c, host)
	node := operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	if !node.Spec.Unschedulable {
		t.Error("the node is completed and not cordoned")
	}
	if got := node.Annotations[maintenance.AnnotationStatus]; got != maintenance.StatusCompleted {
		t.Errorf("maintain-status is %q, want %q", got, maintenance.StatusCompleted)
	}
	for _, name := range []string{"plain", "moves", "soon"} {
		operator.AwaitRunningOn(t, c, ns, name, other)
	}
	for _, name := range []string{"off", "later"} {
		c.AwaitNoVMI(t, ns, name)
	}
	phases := []maintenance.Phase{}
	for _, version := range history.To(t, node) {
		phase := maintenance.PhaseOf(version)
		if len(phases) == 0 || phases[len(phases)-1] != phase {
			phases = append(phases, phase)
		}
		condition, status := maintenance.Condition(version), version.Annotations[maintenance.AnnotationStatus]
		if engaged := condition != nil && condition.Status == "True"; engaged != (status != "") {
			t.Errorf("a version of the node shows half a transition: condition %+v, maintain-status %q", condition, status)
		}
	}
	want := []maintenance.Phase{"", maintenance.PhaseValidating, maintenance.PhaseDraining, maintenance.PhaseEvacuating, maintenance.PhaseCompleted}
	if len(phases) != len(want) {
		t.Errorf("the node went through %v, want %v", phases, want)
	}

	operator.Leave(t, c, host)
	if node := operator.AwaitOut(t, c, host); node.Spec.Unschedulable {
		t.Error("the node has left maintenance and is still cordoned")
	}
	operator.AwaitRunningOn(t, c, ns, "later", host, other)
	operator.AwaitForgotten(t, c, ns, "later")
	c.AwaitNoVMI(t, ns, "off")
	vm := operator.AwaitForgotten(t, c, ns, "off")
	if vm.Spec.RunStrategy == nil || *vm.Spec.RunStrategy != virtv1.RunStrategyHalted {
		t.Errorf("the VM that its owner shuts down has run strategy %v", vm.Spec.RunStrategy)
	}
}
