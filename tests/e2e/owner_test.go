package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
)

// setRunStrategy starts or stops a VM as its owner does with kubectl edit.
func setRunStrategy(t *testing.T, c *cluster.Cluster, namespace, name string, strategy virtv1.VirtualMachineRunStrategy) {
	t.Helper()
	patchVM(t, c, namespace, name, map[string]any{"spec": map[string]any{"runStrategy": strategy}})
}

func deleteVM(t *testing.T, c *cluster.Cluster, namespace, name string) {
	t.Helper()
	if err := c.KubeVirt.KubevirtV1().VirtualMachines(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestAnOwnerWhoActsDuringMaintenanceWins(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	off := func(name string) *cluster.VM {
		return movable(c, ns, name, pool).Strategy("ShutdownAndRestartAfterDisable")
	}
	create(t, off("patched"), off("started"), off("deleted"), off("shut"), movable(c, ns, "soon", pool).Strategy("ShutdownAndRestartAfterEnable"))
	c.VM(ns, "pinned").RunStrategy(virtv1.RunStrategyHalted).Change(func(vm *virtv1.VirtualMachine) {
		vm.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: host}
	}).Create(t)
	request(t, c, host)
	awaitPhase(t, c, host, maintenance.PhaseCompleted)
	awaitRunningOn(t, c, ns, "soon", other)
	awaitForgotten(t, c, ns, "soon")

	// Started by its owner, in either way: it runs and is nobody's business any more.
	histories := map[string]*cluster.History[*virtv1.VirtualMachine]{}
	for _, name := range []string{"patched", "started", "soon", "shut"} {
		histories[name] = c.RecordVM(t, ns, name)
	}
	setRunStrategy(t, c, ns, "patched", virtv1.RunStrategyAlways)
	start(t, c, ns, "started")
	for _, name := range []string{"patched", "started"} {
		awaitRunningOn(t, c, ns, name, other)
		awaitForgotten(t, c, ns, name)
		awaitEvent(t, c, "VirtualMachine", ns, name, "MaintenanceStarted", "by somebody else")
	}
	// Stopped by its owner, after Drydock had started it.
	setRunStrategy(t, c, ns, "soon", virtv1.RunStrategyHalted)
	c.AwaitNoVMI(t, ns, "soon")
	deleteVM(t, c, ns, "deleted")
	start(t, c, ns, "pinned")
	c.AwaitVM(t, ns, "pinned", "finds no place", func(vm *virtv1.VirtualMachine) bool {
		return vm.Status.PrintableStatus == virtv1.VirtualMachineStatusUnschedulable
	})
	awaitPass(t, c, host)
	if phase := maintenance.PhaseOf(getNode(t, c, host)); phase != maintenance.PhaseCompleted {
		t.Errorf("the node is %s after its owners' actions, want Completed", phase)
	}

	leave(t, c, host)
	awaitOut(t, c, host)
	awaitRunningOn(t, c, ns, "pinned", host)
	awaitRunningOn(t, c, ns, "shut", pool.Hosts...)
	awaitForgotten(t, c, ns, "shut")
	for _, name := range []string{"patched", "started"} {
		if got := runs(versionsTo(t, histories[name], getVM(t, c, ns, name))); !slices.Equal(got, []string{"Halted", "Always"}) {
			t.Errorf("%s: the run strategies were %v, want one start", name, got)
		}
	}
	vm := getVM(t, c, ns, "soon")
	if got := runs(versionsTo(t, histories["soon"], vm)); !slices.Equal(got, []string{"Always", "Halted"}) {
		t.Errorf("the VM that its owner stopped went through %v", got)
	}
	c.AwaitNoVMI(t, ns, "soon")
}

// What a VM's label says counts until the VM is stopped, and after that it can still
// take a restart back.
func TestALabelChangedAfterTheStopCanTakeTheRestartBack(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	changes := map[string]string{"shutdown": "Shutdown", "migrate": "Migrate", "removed": "", "unknown": "Whatever"}
	vms := []*cluster.VM{movable(c, ns, "enable", pool).Strategy("ShutdownAndRestartAfterDisable"), movable(c, ns, "kept", pool).Strategy("ShutdownAndRestartAfterDisable")}
	for name := range changes {
		vms = append(vms, movable(c, ns, name, pool).Strategy("ShutdownAndRestartAfterDisable"))
	}
	create(t, vms...)
	request(t, c, host)
	awaitPhase(t, c, host, maintenance.PhaseCompleted)

	for name, strategy := range changes {
		relabel(t, c, ns, name, strategy)
	}
	relabel(t, c, ns, "enable", "ShutdownAndRestartAfterEnable")
	for name := range changes {
		if vm := awaitForgotten(t, c, ns, name); !halted(vm) {
			t.Errorf("%s: %s", name, brief(vm))
		}
		awaitEvent(t, c, "VirtualMachine", ns, name, "MaintenanceStaysOff")
	}
	if vm := getVM(t, c, ns, "kept"); marker(vm) != host {
		t.Errorf("the VM whose label did not change has marker %q", marker(vm))
	}

	leave(t, c, host)
	awaitOut(t, c, host)
	for _, name := range []string{"kept", "enable"} {
		awaitRunningOn(t, c, ns, name, pool.Hosts...)
		awaitForgotten(t, c, ns, name)
	}
	for name := range changes {
		if vm := getVM(t, c, ns, name); !halted(vm) {
			t.Errorf("%s was started: %s", name, brief(vm))
		}
		if got := countEvents(t, c, "VirtualMachine", ns, name, "MaintenanceStaysOff"); got != 1 {
			t.Errorf("%s: it was told %d times that it stays off", name, got)
		}
	}
}

// KubeVirt would neither finish nor abort a migration of a VM that is shut down.
func TestALabelChangedDuringTheMigrationEndsItBeforeTheVMIsStopped(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	// One is moved by KubeVirt, the other by a migration of Drydock's own.
	create(t,
		movable(c, ns, "evicted", pool).Annotate("sim.drydock.dev/migration-seconds", "never"),
		c.VM(ns, "migrated").On(host).PinnedTo(pool).Annotate("sim.drydock.dev/migration-seconds", "never"))
	names := []string{"evicted", "migrated"}
	request(t, c, host)
	for _, name := range names {
		awaitMigrating(t, c, ns, name)
	}
	for _, name := range names {
		relabel(t, c, ns, name, "ShutdownAndRestartAfterDisable")
	}
	for _, name := range names {
		vm := c.AwaitVM(t, ns, name, "stopped", halted)
		if marker(vm) != host {
			t.Errorf("%s: the marker is %q, want %q", name, marker(vm), host)
		}
		for _, m := range migrationsOf(t, c, ns, name) {
			if !m.IsFinal() {
				t.Errorf("%s was stopped while its migration was %s", name, m.Status.Phase)
			}
		}
		c.AwaitNoVMI(t, ns, name)
	}
	awaitPhase(t, c, host, maintenance.PhaseCompleted)
	leave(t, c, host)
	awaitOut(t, c, host)
	for _, name := range names {
		awaitRunningOn(t, c, ns, name, pool.Hosts...)
	}
}

// The other way round: a VM that waits to be stopped is moved instead.
func TestALabelTakenAwayBeforeTheStopMovesTheVM(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	create(t, movable(c, ns, "a", pool).Strategy("Shutdown").Annotate("sim.drydock.dev/migration-seconds", "never"))
	history := c.RecordVM(t, ns, "a")
	users := migrate(t, c, ns, "a")
	request(t, c, host)
	awaitMessage(t, c, host, ns+"/a is waiting for migration "+users)
	relabel(t, c, ns, "a", "")
	annotateVMI(t, c, ns, "a", map[string]string{"sim.drydock.dev/migration-seconds": "0.1"})
	client := c.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(ns)
	if err := client.Delete(t.Context(), users, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitRunningOn(t, c, ns, "a", other)
	awaitPhase(t, c, host, maintenance.PhaseCompleted)
	never(t, "the VM was stopped", versionsTo(t, history, getVM(t, c, ns, "a")), halted)
}

// A marker means something only with Drydock's own record.
func TestAForeignMarkerIsReportedAndStartsNothing(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	c.VM(ns, "foreign").PinnedTo(pool).RunStrategy(virtv1.RunStrategyHalted).Strategy("ShutdownAndRestartAfterDisable").
		AnnotateVM(maintenance.AnnotationMarker, host).AnnotateVM(maintenance.AnnotationRunStrategy, "Always").Create(t)
	awaitEvent(t, c, "VirtualMachine", ns, "foreign", "MaintenanceMarkerForeign", host)
	request(t, c, host)
	awaitPhase(t, c, host, maintenance.PhaseCompleted)
	leave(t, c, host)
	awaitOut(t, c, host)
	awaitPass(t, c, host)
	if vm := getVM(t, c, ns, "foreign"); !halted(vm) || marker(vm) != host {
		t.Errorf("the VM was touched: %s", brief(vm))
	}
}
