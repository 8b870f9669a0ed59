package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// setRunStrategy starts or stops a VM as its owner does with kubectl edit.
func setRunStrategy(t *testing.T, c *cluster.Cluster, namespace, name string, strategy virtv1.VirtualMachineRunStrategy) {
	t.Helper()
	operator.PatchVM(t, c, namespace, name, map[string]any{"spec": map[string]any{"runStrategy": strategy}})
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
		return operator.Movable(c, ns, name, pool).Strategy("ShutdownAndRestartAfterDisable")
	}
	operator.Create(t, off("patched"), off("started"), off("deleted"), off("shut"), operator.Movable(c, ns, "soon", pool).Strategy("ShutdownAndRestartAfterEnable"))
	c.VM(ns, "pinned").RunStrategy(virtv1.RunStrategyHalted).Change(func(vm *virtv1.VirtualMachine) {
		vm.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: host}
	}).Create(t)
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitRunningOn(t, c, ns, "soon", other)
	operator.AwaitForgotten(t, c, ns, "soon")

	// Started by its owner, in either way: it runs and is nobody's business any more.
	histories := map[string]*cluster.History[*virtv1.VirtualMachine]{}
	for _, name := range []string{"patched", "started", "soon", "shut"} {
		histories[name] = c.RecordVM(t, ns, name)
	}
	setRunStrategy(t, c, ns, "patched", virtv1.RunStrategyAlways)
	start(t, c, ns, "started")
	for _, name := range []string{"patched", "started"} {
		operator.AwaitRunningOn(t, c, ns, name, other)
		operator.AwaitForgotten(t, c, ns, name)
		operator.AwaitEvent(t, c, "VirtualMachine", ns, name, "MaintenanceStarted", "by somebody else")
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

	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	operator.AwaitRunningOn(t, c, ns, "pinned", host)
	operator.AwaitRunningOn(t, c, ns, "shut", pool.Hosts...)
	operator.AwaitForgotten(t, c, ns, "shut")
	for _, name := range []string{"patched", "started"} {
		if got := runs(histories[name].To(t, operator.GetVM(t, c, ns, name))); !slices.Equal(got, []string{"Halted", "Always"}) {
			t.Errorf("%s: the run strategies were %v, want one start", name, got)
		}
	}
	vm := operator.GetVM(t, c, ns, "soon")
	if got := runs(histories["soon"].To(t, vm)); !slices.Equal(got, []string{"Always", "Halted"}) {
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
	// Whose marker is taken away by hand loses the restart as well.
	vms := []*cluster.VM{operator.Movable(c, ns, "unmarked", pool).Strategy("ShutdownAndRestartAfterDisable"), operator.Movable(c, ns, "enable", pool).Strategy("ShutdownAndRestartAfterDisable"), operator.Movable(c, ns, "kept", pool).Strategy("ShutdownAndRestartAfterDisable")}
	for name := range changes {
		vms = append(vms, operator.Movable(c, ns, name, pool).Strategy("ShutdownAndRestartAfterDisable"))
	}
	operator.Create(t, vms...)
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)

	for name, strategy := range changes {
		operator.Relabel(t, c, ns, name, strategy)
	}
	operator.Relabel(t, c, ns, "enable", "ShutdownAndRestartAfterEnable")
	operator.PatchVM(t, c, ns, "unmarked", map[string]any{"metadata": map[string]any{"annotations": map[string]any{maintenance.AnnotationMarker: nil}}})
	changes["unmarked"] = "ShutdownAndRestartAfterDisable"
	for name := range changes {
		if vm := operator.AwaitForgotten(t, c, ns, name); !halted(vm) {
			t.Errorf("%s: %s", name, brief(vm))
		}
		operator.AwaitEvent(t, c, "VirtualMachine", ns, name, "MaintenanceStaysOff")
	}
	if vm := operator.GetVM(t, c, ns, "kept"); operator.Marker(vm) != host {
		t.Errorf("the VM whose label did not change has marker %q", operator.Marker(vm))
	}

	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	for _, name := range []string{"kept", "enable"} {
		operator.AwaitRunningOn(t, c, ns, name, pool.Hosts...)
		operator.AwaitForgotten(t, c, ns, name)
	}
	for name := range changes {
		if vm := operator.GetVM(t, c, ns, name); !halted(vm) {
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
	operator.Create(t,
		operator.Movable(c, ns, "evicted", pool).Annotate("sim.drydock.dev/migration-seconds", "never"),
		c.VM(ns, "migrated").On(host).PinnedTo(pool).Annotate("sim.drydock.dev/migration-seconds", "never"))
	names := []string{"evicted", "migrated"}
	operator.Request(t, c, host)
	for _, name := range names {
		awaitMigrating(t, c, ns, name)
	}
	for _, name := range names {
		operator.Relabel(t, c, ns, name, "ShutdownAndRestartAfterDisable")
	}
	for _, name := range names {
		vm := c.AwaitVM(t, ns, name, "stopped", halted)
		if operator.Marker(vm) != host {
			t.Errorf("%s: the marker is %q, want %q", name, operator.Marker(vm), host)
		}
		for _, m := range migrationsOf(t, c, ns, name) {
			if !m.IsFinal() {
				t.Errorf("%s was stopped while its migration was %s", name, m.Status.Phase)
			}
		}
		c.AwaitNoVMI(t, ns, name)
	}
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	for _, name := range names {
		operator.AwaitRunningOn(t, c, ns, name, pool.Hosts...)
	}
}

// The other way round: a VM that waits to be stopped is moved instead.
func TestALabelTakenAwayBeforeTheStopMovesTheVM(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t, operator.Movable(c, ns, "a", pool).Strategy("Shutdown").Annotate("sim.drydock.dev/migration-seconds", "never"))
	history := c.RecordVM(t, ns, "a")
	users := migrate(t, c, ns, "a")
	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, ns+"/a is waiting for migration "+users)
	operator.Relabel(t, c, ns, "a", "")
	operator.AnnotateVMI(t, c, ns, "a", map[string]string{"sim.drydock.dev/migration-seconds": "0.1"})
	client := c.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(ns)
	if err := client.Delete(t.Context(), users, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	operator.AwaitRunningOn(t, c, ns, "a", other)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	never(t, "the VM was stopped", history.To(t, operator.GetVM(t, c, ns, "a")), halted)
}

// A marker means something only with Drydock's own record.
func TestAForeignMarkerIsReportedAndStartsNothing(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	c.VM(ns, "foreign").PinnedTo(pool).RunStrategy(virtv1.RunStrategyHalted).Strategy("ShutdownAndRestartAfterDisable").
		AnnotateVM(maintenance.AnnotationMarker, host).AnnotateVM(maintenance.AnnotationRunStrategy, "Always").Create(t)
	operator.AwaitEvent(t, c, "VirtualMachine", ns, "foreign", "MaintenanceMarkerForeign", host)
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	awaitPass(t, c, host)
	if vm := operator.GetVM(t, c, ns, "foreign"); !halted(vm) || operator.Marker(vm) != host {
		t.Errorf("the VM was touched: %s", brief(vm))
	}
}
