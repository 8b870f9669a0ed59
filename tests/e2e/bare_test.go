package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// bare makes a VMI without a VM from what a VM's template would be.
func bare(t *testing.T, c *cluster.Cluster, namespace, name string, template *cluster.VM) *virtv1.VirtualMachineInstance {
	t.Helper()
	vmi := &virtv1.VirtualMachineInstance{}
	template.Change(func(vm *virtv1.VirtualMachine) {
		vmi.ObjectMeta = *vm.Spec.Template.ObjectMeta.DeepCopy()
		vmi.Spec = *vm.Spec.Template.Spec.DeepCopy()
	})
	vmi.Namespace, vmi.Name = namespace, name
	if _, err := c.KubeVirt.KubevirtV1().VirtualMachineInstances(namespace).Create(t.Context(), vmi, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c.AwaitVMI(t, namespace, name, "the VMI runs", cluster.IsRunning)
}

// replicated makes a replica set of one VMI, and returns the VMI.
func replicated(t *testing.T, c *cluster.Cluster, namespace, name string, template *cluster.VM) *virtv1.VirtualMachineInstance {
	t.Helper()
	one := int32(1)
	set := &virtv1.VirtualMachineInstanceReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	template.Change(func(vm *virtv1.VirtualMachine) {
		set.Spec = virtv1.VirtualMachineInstanceReplicaSetSpec{
			Replicas: &one, Template: vm.Spec.Template.DeepCopy(),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"set": name}},
		}
		set.Spec.Template.ObjectMeta.Labels["set"] = name
	})
	if _, err := c.KubeVirt.KubevirtV1().VirtualMachineInstanceReplicaSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return awaitReplica(t, c, namespace, name, func(vmi *virtv1.VirtualMachineInstance) bool { return true })
}

func awaitReplica(t *testing.T, c *cluster.Cluster, namespace, set string, condition func(*virtv1.VirtualMachineInstance) bool) *virtv1.VirtualMachineInstance {
	t.Helper()
	var found *virtv1.VirtualMachineInstance
	eventually(t, c, "a running VMI of the set "+set, func() bool {
		list, err := c.KubeVirt.KubevirtV1().VirtualMachineInstances(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "set=" + set})
		if err != nil {
			t.Fatal(err)
		}
		for n := range list.Items {
			if vmi := &list.Items[n]; cluster.IsRunning(vmi) && vmi.DeletionTimestamp == nil && condition(vmi) {
				found = vmi
				return true
			}
		}
		return false
	})
	return found
}

// A VMI that no VM owns is moved like any other if it can be.
func TestAVMIWithoutAVMIsMovedIfItCanBe(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	alone := bare(t, c, ns, "alone", operator.Movable(c, ns, "alone", pool))
	// Its eviction would shut it down: the cluster's default is None.
	plain := bare(t, c, ns, "plain", c.VM(ns, "plain").On(host).PinnedTo(pool))
	// Consent is read from a VM's template, which these do not have.
	willing := bare(t, c, ns, "willing", c.VM(ns, "willing").On(host).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyNone))
	replica := replicated(t, c, ns, "set", operator.Movable(c, ns, "set", pool))
	mark := c.Audit(t, "drydock")

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	// KubeVirt replaces the VMI of a set when it sees it between two launchers, which is
	// not Drydock's doing.
	awaitReplica(t, c, ns, "set", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.Status.NodeName == other })
	if list := migrationsOf(t, c, ns, replica.Name); len(list) > 1 {
		t.Errorf("the VMI of the replica set has %d migrations", len(list))
	}
	for _, r := range callsOf(mark.Requests(t), ns, "virtualmachineinstances", "delete") {
		t.Errorf("VMIs that can move: %s", r)
	}
	for _, vmi := range []*virtv1.VirtualMachineInstance{alone, plain, willing} {
		if now := operator.AwaitRunningOn(t, c, ns, vmi.Name, other); now.UID != vmi.UID {
			t.Errorf("VMI %s was not moved, another one runs", vmi.Name)
		}
	}
}

// One that cannot be moved blocks, with what would become of it; force deletes it and
// says so.
func TestAVMIWithoutAVMThatCannotMoveBlocksAndForceDeletesIt(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	stuck := func(name string) *cluster.VM {
		return operator.Movable(c, ns, name, pool).Annotate(immovable, passthrough)
	}
	bare(t, c, ns, "alone", stuck("alone"))
	bare(t, c, ns, "willing", c.VM(ns, "willing").On(host).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyNone).Annotate(immovable, passthrough))
	replica := replicated(t, c, ns, "set", stuck("set"))

	operator.Request(t, c, host)
	awaitRefused(t, c, host, ns+"/alone", ns+"/willing", "would be lost", ns+"/"+replica.Name, "will be re-created elsewhere")

	operator.Force(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	c.AwaitNoVMI(t, ns, "alone")
	c.AwaitNoVMI(t, ns, "willing")
	operator.AwaitEvent(t, c, "VirtualMachineInstance", ns, "alone", "MaintenanceDeleted", host)
	operator.AwaitEvent(t, c, "VirtualMachineInstance", ns, replica.Name, "MaintenanceDeleted", host)
	again := awaitReplica(t, c, ns, "set", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.UID != replica.UID })
	if again.Status.NodeName != other {
		t.Errorf("the replica set's new VMI is on %s, want %s", again.Status.NodeName, other)
	}
}

// A VMI whose memory is being moved has a target, even if nobody else would take it by
// now: force does not delete it.
func TestForceDoesNotDeleteAVMIDuringItsMigration(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	vmi := bare(t, c, ns, "alone", operator.Movable(c, ns, "alone", pool).Annotate(migrationSeconds, "never"))
	migrate(t, c, ns, "alone")
	repel(t, c, other, corev1.TaintEffectNoSchedule)

	operator.Force(t, c, host)
	operator.AwaitMessage(t, c, host, "1 migrating", ns+"/alone")
	operator.AnnotateVMI(t, c, ns, "alone", map[string]string{migrationSeconds: "0.1"})
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	if now := operator.AwaitRunningOn(t, c, ns, "alone", other); now.UID != vmi.UID {
		t.Error("the VMI was replaced by another")
	}
}
