package e2e

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
	instancetypev1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/operator"
)

// What a VM lacks since its node was cordoned may come back: it is named and waited for,
// though its owner allows an interruption where it cannot move. Memory that is being moved
// meanwhile is let go on.
func TestAVMWithoutATargetForAWhileIsNotStopped(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	busy := []string{"a1", "a2"} // as many as leave a node at once
	for _, name := range busy {
		operator.Create(t, operator.Movable(c, ns, name, pool).Annotate(migrationSeconds, "never"))
	}
	operator.Create(t, c.VM(ns, "willing").On(host).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrateIfPossible).Annotate(migrationSeconds, "0.1"))
	first, history := getVMI(t, c, ns, "willing"), c.RecordVM(t, ns, "willing")
	operator.Request(t, c, host)
	for _, name := range busy {
		awaitMigrating(t, c, ns, name)
	}

	setUnschedulable(t, c, other, true)
	operator.AwaitMessage(t, c, host, ns+"/willing no other ready, schedulable node", "2 migrating")
	awaitPass(t, c, host)
	setUnschedulable(t, c, other, nil)
	for _, name := range busy {
		operator.AnnotateVMI(t, c, ns, name, map[string]string{migrationSeconds: "0.1"})
	}
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	if now := operator.AwaitRunningOn(t, c, ns, "willing", other); now.UID != first.UID {
		t.Error("the VM was restarted")
	}
	never(t, "the VM was stopped", history.To(t, operator.GetVM(t, c, ns, "willing")), halted)
	for _, name := range busy {
		for _, migration := range migrationsOf(t, c, ns, name) {
			if migration.Status.Phase != virtv1.MigrationSucceeded {
				t.Errorf("%s was being moved, and its migration %s is %s", name, migration.Name, migration.Status.Phase)
			}
		}
	}
}

// Whoever refuses the cordon is named on the node; once he does not, the drain goes on.
func TestARefusedCordonIsToldOnTheNode(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	host := c.Pool(t, 2).Host(0)
	release := c.Refuse(t, "nodes", host, "!has(object.spec.unschedulable) || !object.spec.unschedulable", func(ctx context.Context) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, host, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	operator.Request(t, c, host)
	node := operator.AwaitMessage(t, c, host, "cannot go on", "refused by a test")
	if phase := maintenance.PhaseOf(node); phase != maintenance.PhaseDraining || node.Spec.Unschedulable {
		t.Errorf("the node is %s, unschedulable %t", phase, node.Spec.Unschedulable)
	}
	release()
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
}

// KubeVirt applies the node selector of an instancetype to the VMI alone. It counts before
// a move and, when the VM is off, before a start elsewhere.
func TestTheNodeSelectorOfAnInstancetypeCounts(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	rare := map[string]string{"test.drydock.dev/only": host}
	operator.PatchNode(t, c, host, map[string]any{"metadata": map[string]any{"labels": rare}})
	memory := instancetypev1.MemoryInstancetype{Guest: resource.MustParse("64Mi")}
	_, err := c.KubeVirt.InstancetypeV1beta1().VirtualMachineInstancetypes(ns).Create(t.Context(), &instancetypev1.VirtualMachineInstancetype{
		ObjectMeta: metav1.ObjectMeta{Name: "large"},
		Spec:       instancetypev1.VirtualMachineInstancetypeSpec{CPU: instancetypev1.CPUInstancetype{Guest: 1}, Memory: memory, NodeSelector: rare},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	operator.Create(t, operator.Movable(c, ns, "typed", pool).Change(func(vm *virtv1.VirtualMachine) {
		vm.Spec.Template.Spec.Domain.Resources = virtv1.ResourceRequirements{}
		vm.Spec.Instancetype = &virtv1.InstancetypeMatcher{Kind: "VirtualMachineInstancetype", Name: "large"}
	}))

	operator.Request(t, c, host)
	awaitRefused(t, c, host, ns+"/typed no other ready, schedulable node")
	operator.Relabel(t, c, ns, "typed", "ShutdownAndRestartAfterEnable")
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitMessage(t, c, host, ns+"/typed", "no other node can host it")
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	operator.AwaitRunningOn(t, c, ns, "typed", host)
}
