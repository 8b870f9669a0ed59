package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

const migrationSeconds = "sim.drydock.dev/migration-seconds"

// Two VMs hold the node's two slots without getting anywhere, since no other node has
// the memory for them. They are named with the scheduler's reason and let the others
// pass; nothing is stopped.
func TestVMsThatNoNodeTakesLetTheOthersPass(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 1)
	host := pool.Host(0)
	small := c.Node(t, pool.Label+"-small", cluster.Label("test.drydock.dev/pool", pool.Label), cluster.Annotation("sim.drydock.dev/memory", "3Gi")).Name
	big := func(vm *virtv1.VirtualMachine) {
		vm.Spec.Template.Spec.Domain.Resources.Requests[corev1.ResourceMemory] = resource.MustParse("8Gi")
	}
	hopeless, movers := []string{"a", "b"}, []string{"c", "d", "e", "f"}
	var vms []*cluster.VM
	for _, name := range hopeless {
		vms = append(vms, operator.Movable(c, ns, name, pool).Change(big))
	}
	for _, name := range movers {
		vms = append(vms, operator.Movable(c, ns, name, pool).Annotate(migrationSeconds, "0.3"))
	}
	operator.Create(t, vms...)
	histories := map[string]*cluster.History[*virtv1.VirtualMachine]{}
	for _, name := range hopeless {
		histories[name] = c.RecordVM(t, ns, name)
	}

	operator.Request(t, c, host)
	for _, name := range movers {
		operator.AwaitRunningOn(t, c, ns, name, small)
	}
	operator.AwaitMessage(t, c, host, ns+"/a", ns+"/b", "Insufficient memory")

	operator.Leave(t, c, host)
	if node := operator.AwaitOut(t, c, host); node.Spec.Unschedulable {
		t.Error("the node has left maintenance and is still cordoned")
	}
	for _, name := range hopeless {
		vmi := operator.AwaitRunningOn(t, c, ns, name, host)
		if vmi.Status.EvacuationNodeName != "" {
			t.Errorf("%s is still marked for the evacuation of %s", name, vmi.Status.EvacuationNodeName)
		}
		never(t, name+" was stopped", histories[name].To(t, operator.GetVM(t, c, ns, name)), halted)
	}
}

// Migrations that move memory are never ended by Drydock. While they hold the slots,
// what waits behind them is said.
func TestVMsThatWaitForASlotAreToldAndByWhomItIsHeld(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t,
		operator.Movable(c, ns, "a", pool).Annotate(migrationSeconds, "never"),
		operator.Movable(c, ns, "b", pool).Annotate(migrationSeconds, "never"),
		operator.Movable(c, ns, "c", pool), operator.Movable(c, ns, "d", pool))

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "4 of 4 VMs left", "2 migrating", "2 waiting")
	node := c.AwaitNode(t, host, "a report that names who waits for a slot", func(n *corev1.Node) bool {
		return strings.Count(n.Annotations[maintenance.AnnotationProgress], "is waiting for a migration slot") == 2
	})
	for _, name := range []string{"a", "b", "c", "d"} {
		if !strings.Contains(node.Annotations[maintenance.AnnotationProgress], fmt.Sprintf("%q", name)) {
			t.Errorf("the report does not name %s: %s", name, node.Annotations[maintenance.AnnotationProgress])
		}
	}
	// The only other place for them must stay; the refusal is dismissed by its annotation.
	operator.Request(t, c, other)
	awaitRefused(t, c, other, "VM "+ns+"/a is leaving node "+host+", which is being drained, and could go nowhere but here")
	operator.Annotate(t, c, other, map[string]string{maintenance.AnnotationClear: "true"})
	operator.AwaitOut(t, c, other)
	operator.AwaitEvent(t, c, "Node", "", other, "MaintenanceCleared")
	// The obstacle goes away: all of them follow.
	for _, name := range []string{"a", "b"} {
		operator.AnnotateVMI(t, c, ns, name, map[string]string{migrationSeconds: "0.2"})
	}
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	for _, name := range []string{"a", "b", "c", "d"} {
		operator.AwaitRunningOn(t, c, ns, name, other)
	}
}

// A failed migration is told with its reason and tried again, by KubeVirt or by Drydock,
// whoever makes it. No VM is powered off for it.
func TestAFailedMigrationIsToldAndTriedAgain(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	failing := func(vm *cluster.VM, times string) *cluster.VM {
		return vm.Annotate(migrationSeconds, "0.2").Annotate("sim.drydock.dev/migration-failures", times).
			Annotate("sim.drydock.dev/migration-failure-reason", "the link went down")
	}
	operator.Create(t,
		failing(operator.Movable(c, ns, "kubevirts", pool), "1"),
		failing(c.VM(ns, "drydocks").On(host).PinnedTo(pool), "1"),
		operator.Movable(c, ns, "healthy", pool))
	names := []string{"kubevirts", "drydocks", "healthy"}
	first, histories := map[string]*virtv1.VirtualMachineInstance{}, map[string]*cluster.History[*virtv1.VirtualMachine]{}
	for _, name := range names {
		first[name], histories[name] = getVMI(t, c, ns, name), c.RecordVM(t, ns, name)
	}
	history := c.RecordNode(t, host)

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	for _, name := range names {
		if vmi := operator.AwaitRunningOn(t, c, ns, name, other); vmi.UID != first[name].UID {
			t.Errorf("%s was restarted", name)
		}
		never(t, name+" was stopped", histories[name].To(t, operator.GetVM(t, c, ns, name)), halted)
	}
	for _, name := range []string{"kubevirts", "drydocks"} {
		if !slices.ContainsFunc(history.Versions(), func(n *corev1.Node) bool {
			condition := maintenance.Condition(n)
			return condition != nil && operator.Holds(condition.Message, []string{ns + "/" + name, "migration failed", "the link went down"})
		}) {
			t.Errorf("it was never said that the migration of %s had failed, and why", name)
		}
	}
}

// A VM whose migrations all fail goes on running where it is, and the reason is told for
// as long as the node waits. Leaving is possible at any time.
func TestAVMWhoseMigrationsAllFailIsNeverPoweredOff(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t, operator.Movable(c, ns, "a", pool).Annotate(migrationSeconds, "0.2").
		Annotate("sim.drydock.dev/migration-failures", "always").Annotate("sim.drydock.dev/migration-failure-reason", "the link is down"))
	first, history := getVMI(t, c, ns, "a"), c.RecordVM(t, ns, "a")

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, ns+"/a", "migration failed 2 times", "the link is down")
	operator.Leave(t, c, host)
	if node := operator.AwaitOut(t, c, host); node.Spec.Unschedulable {
		t.Error("the node has left maintenance and is still cordoned")
	}
	if vmi := operator.AwaitRunningOn(t, c, ns, "a", host); vmi.UID != first.UID {
		t.Error("the VM was restarted")
	}
	never(t, "the VM was stopped", history.To(t, operator.GetVM(t, c, ns, "a")), halted)
}

// A VM is not stopped while a migration of it is unfinished: a user's is awaited. If it
// gets away by it, there is nothing left to stop.
func TestAVMIsNotStoppedWhileAUserMigratesIt(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	slow := func(name string) *cluster.VM {
		return c.VM(ns, name).On(host).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate).Annotate(migrationSeconds, "never")
	}
	operator.Create(t,
		slow("escapes").Strategy("ShutdownAndRestartAfterDisable"),
		slow("fails").Strategy("ShutdownAndRestartAfterEnable").Annotate("sim.drydock.dev/migration-failures", "1"))
	first := getVMI(t, c, ns, "escapes")
	escapes, fails := c.RecordVM(t, ns, "escapes"), c.RecordVM(t, ns, "fails")
	byHand := map[string]string{}
	for _, name := range []string{"escapes", "fails"} {
		byHand[name] = migrate(t, c, ns, name)
	}
	mark := c.Audit(t, "drydock")
	history := c.RecordNode(t, host)

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, ns+"/escapes is waiting for migration "+byHand["escapes"], ns+"/fails is waiting for migration "+byHand["fails"])
	for name := range byHand {
		operator.AnnotateVMI(t, c, ns, name, map[string]string{migrationSeconds: "0.1"})
	}
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	if vmi := operator.AwaitRunningOn(t, c, ns, "escapes", other); vmi.UID != first.UID {
		t.Error("the VM that got away was restarted")
	}
	never(t, "the VM that got away was stopped", escapes.To(t, operator.GetVM(t, c, ns, "escapes")), halted)
	operator.AwaitRunningOn(t, c, ns, "fails", other)
	if ways := runs(fails.To(t, operator.AwaitForgotten(t, c, ns, "fails"))); len(ways) != 3 {
		t.Errorf("the VM whose migration failed has had run strategies %q, want a stop and a start", ways)
	}
	for name, migration := range byHand {
		for _, m := range migrationsOf(t, c, ns, name) {
			if m.Name != migration {
				t.Errorf("%s has a migration %s besides the user's", name, m.Name)
			}
		}
	}
	if n := len(callsOf(mark.Requests(t), ns, "virtualmachineinstancemigrations", "delete")); n != 0 {
		t.Errorf("Drydock deleted %d migrations that a user began", n)
	}
	never(t, "a VM that leaves was said to come", history.Versions(), func(n *corev1.Node) bool {
		condition := maintenance.Condition(n)
		return condition != nil && strings.Contains(condition.Message, "migrating in")
	})
}

// A migration under way towards the node keeps it from Completed until the VM has come
// and gone again.
func TestAMigrationTowardsTheNodeIsAwaitedAndTheVMMovesOn(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t, c.VM(ns, "comes").On(other).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate).Annotate(migrationSeconds, "never"))
	first := getVMI(t, c, ns, "comes")
	vmis := c.RecordVMI(t, ns, "comes")
	migration := migrate(t, c, ns, "comes")

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "1 migrating in")
	operator.AnnotateVMI(t, c, ns, "comes", map[string]string{migrationSeconds: "0.1"})
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	now := operator.AwaitRunningOn(t, c, ns, "comes", other)
	if now.UID != first.UID {
		t.Error("the VM was restarted")
	}
	if !slices.ContainsFunc(vmis.To(t, now), func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.Status.NodeName == host }) {
		t.Error("the user's migration towards the node was cut off: the VM never came")
	}
	for _, m := range migrationsOf(t, c, ns, "comes") {
		if m.Name == migration && m.Status.Phase != virtv1.MigrationSucceeded {
			t.Errorf("the user's migration is %s", m.Status.Phase)
		}
	}
}

// A user's migration away from the node is what maintenance wants: nothing is added to
// it, and nothing taken away.
func TestAUsersMigrationAwayFromTheNodeIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	names := []string{"evictable", "plain"}
	operator.Create(t,
		operator.Movable(c, ns, "evictable", pool).Annotate(migrationSeconds, "never"),
		c.VM(ns, "plain").On(host).PinnedTo(pool).Annotate(migrationSeconds, "never"))
	byHand := map[string]string{}
	for _, name := range names {
		byHand[name] = migrate(t, c, ns, name)
	}
	mark := c.Audit(t, "drydock")

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "2 of 2 VMs left: 2 migrating")
	for _, name := range names {
		operator.AnnotateVMI(t, c, ns, name, map[string]string{migrationSeconds: "0.1"})
	}
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	for _, name := range names {
		operator.AwaitRunningOn(t, c, ns, name, other)
		// The VM has moved before its migration says so.
		c.Eventually(t, name+"'s migration has succeeded", func(context.Context) error {
			if list := migrationsOf(t, c, ns, name); len(list) != 1 || list[0].Name != byHand[name] || list[0].Status.Phase != virtv1.MigrationSucceeded {
				return fmt.Errorf("%s has %d migrations, want the user's alone, succeeded", name, len(list))
			}
			return nil
		})
	}
	for _, r := range writes(t, mark, ns, "") {
		t.Errorf("the VMs were leaving by themselves, and this was done: %s", r)
	}
}
