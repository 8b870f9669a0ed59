package e2e

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

const immovable = "sim.drydock.dev/not-live-migratable"

const passthrough = "HostDeviceNotLiveMigratable: VMI uses a PCI host device"

// leaves is how a VM left the node.
type leaves string

const (
	evicted   leaves = "moved through the eviction API"
	migrated  leaves = "moved by a migration of Drydock's own"
	restarted leaves = "stopped cleanly and started elsewhere"
	off       leaves = "stopped, and stays off"
)

// evictionStrategies are the values that an owner may write, and none at all, with how
// the VM leaves its node without force and with it. Strategies that KubeVirt would
// answer with a shutdown are the reason why the launcher is then never evicted.
var evictionStrategies = []struct {
	name      string
	strategy  virtv1.EvictionStrategy
	immovable bool
	unforced  leaves // "" where the request would be refused
	forced    leaves
}{
	{name: "unset", unforced: migrated, forced: migrated},
	{name: "none", strategy: virtv1.EvictionStrategyNone, unforced: restarted, forced: migrated},
	{name: "live", strategy: virtv1.EvictionStrategyLiveMigrate, unforced: evicted, forced: evicted},
	{name: "possible", strategy: virtv1.EvictionStrategyLiveMigrateIfPossible, unforced: evicted, forced: evicted},
	{name: "stuck-unset", immovable: true, forced: off},
	{name: "stuck-none", strategy: virtv1.EvictionStrategyNone, immovable: true, unforced: restarted, forced: off},
	{name: "stuck-live", strategy: virtv1.EvictionStrategyLiveMigrate, immovable: true, forced: off},
	{name: "stuck-possible", strategy: virtv1.EvictionStrategyLiveMigrateIfPossible, immovable: true, unforced: restarted, forced: off},
}

func TestTheEvictionStrategyOfTheTemplateDecidesHowAVMLeaves(t *testing.T) {
	t.Parallel()
	for _, forced := range []bool{false, true} {
		t.Run(map[bool]string{false: "asked", true: "forced"}[forced], func(t *testing.T) {
			t.Parallel()
			leaveByEvictionStrategy(t, forced)
		})
	}
}

func leaveByEvictionStrategy(t *testing.T, forced bool) {
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	var vms []*cluster.VM
	want := map[string]leaves{}
	for _, row := range evictionStrategies {
		if want[row.name] = row.unforced; forced {
			want[row.name] = row.forced
		}
		if want[row.name] == "" {
			delete(want, row.name)
			continue
		}
		vm := c.VM(ns, row.name).On(host).PinnedTo(pool).Annotate("sim.drydock.dev/migration-seconds", "0.2")
		if row.strategy != "" {
			vm.EvictionStrategy(row.strategy)
		}
		if row.immovable {
			vm.Annotate(immovable, passthrough)
		}
		vms = append(vms, vm)
	}
	operator.Create(t, vms...)
	if strategy := getVMI(t, c, ns, "unset").Spec.EvictionStrategy; strategy == nil || *strategy != virtv1.EvictionStrategyNone {
		t.Errorf("KubeVirt wrote %v into the VMI of a VM without an eviction strategy; this test is about None", strategy)
	}
	first, launchers := map[string]*virtv1.VirtualMachineInstance{}, map[string]string{}
	histories := map[string]*cluster.History[*virtv1.VirtualMachine]{}
	for name := range want {
		first[name], launchers[name], histories[name] = getVMI(t, c, ns, name), launcherOf(t, c, ns, name), c.RecordVM(t, ns, name)
	}
	mark := c.Audit(t, "drydock")

	if forced {
		operator.Force(t, c, host)
	} else {
		operator.Request(t, c, host)
	}
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	for name, how := range want {
		if how == off {
			c.AwaitNoVMI(t, ns, name)
			if vm := operator.GetVM(t, c, ns, name); operator.Marker(vm) != "" || !halted(vm) {
				t.Errorf("%s: forced to stop, it is %s with marker %q", name, runStrategy(vm), operator.Marker(vm))
			}
			continue
		}
		vmi := operator.AwaitRunningOn(t, c, ns, name, other)
		vm := operator.AwaitForgotten(t, c, ns, name)
		if moved := vmi.UID == first[name].UID; moved != (how != restarted) {
			t.Errorf("%s: it should be %s; the VMI on the other host is the same: %t", name, how, moved)
		}
		if ways := runs(histories[name].To(t, vm)); how != restarted && len(ways) != 1 {
			t.Errorf("%s: it should be %s, and its run strategies were %q", name, how, ways)
		}
	}
	requests := mark.Requests(t)
	for name, how := range want {
		if n := len(evictionsOf(requests, ns, launchers[name])); (n > 0) != (how == evicted) {
			t.Errorf("%s: it should be %s; its launcher was evicted %d times", name, how, n)
		}
		own := slices.DeleteFunc(migrationsOf(t, c, ns, name), func(m virtv1.VirtualMachineInstanceMigration) bool {
			return m.Labels[maintenance.LabelOwnMigration] == ""
		})
		if (len(own) > 0) != (how == migrated) {
			t.Errorf("%s: it should be %s; %d migrations are Drydock's own", name, how, len(own))
		}
	}
}

// Consent does not depend on how the VM is kept running.
func TestAVMWhoseTemplateSaysNoneIsInterruptedAndRunsElsewhereWhateverItsRunStrategy(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	before := map[string]string{}
	for way, write := range ownerWrote {
		before[way] = runStrategy(write(c.VM(ns, way).On(host).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyNone)).Submit(t))
		if way == "manual" {
			start(t, c, ns, way)
		}
	}
	first := map[string]*virtv1.VirtualMachineInstance{}
	for way := range ownerWrote {
		first[way] = c.AwaitVMI(t, ns, way, "the VM runs", cluster.IsRunning)
	}

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	for way, was := range before {
		vmi := operator.AwaitRunningOn(t, c, ns, way, other)
		if vm := operator.AwaitForgotten(t, c, ns, way); runStrategy(vm) != was || vmi.UID == first[way].UID {
			t.Errorf("%s: restarted: %t, with run strategy %s instead of %s", way, vmi.UID != first[way].UID, runStrategy(vm), was)
		}
	}
}

// With External, KubeVirt only marks the VMI. Drydock says whom it waits for, makes no
// migration, and does not start what it did not stop.
func TestAVMOfAnExternalControllerIsMarkedAndWaitedFor(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t, c.VM(ns, "external").On(host).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyExternal))
	first := getVMI(t, c, ns, "external")
	history := c.RecordVM(t, ns, "external")

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, ns+"/external", "waiting for the external controller")
	if vmi := getVMI(t, c, ns, "external"); vmi.Status.EvacuationNodeName != host {
		t.Errorf("the VMI is marked for the evacuation of %q, want %s", vmi.Status.EvacuationNodeName, host)
	}
	// This is what the external controller does.
	if err := c.KubeVirt.KubevirtV1().VirtualMachineInstances(ns).Delete(t.Context(), "external", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	if vmi := operator.AwaitRunningOn(t, c, ns, "external", other); vmi.UID == first.UID {
		t.Error("the VMI moved; it should have been made anew by KubeVirt")
	}
	if n := len(migrationsOf(t, c, ns, "external")); n != 0 {
		t.Errorf("there are %d migrations of a VM that an external controller moves", n)
	}
	never(t, "the VM was changed", history.To(t, operator.GetVM(t, c, ns, "external")), func(vm *virtv1.VirtualMachine) bool {
		return runStrategy(vm) != "Always" || operator.HasMarker(vm) || vm.Annotations[maintenance.AnnotationVMRecord] != ""
	})
}

// A VM that can neither move nor has consented blocks, and one that cannot say so
// either: each is named with its reason and with what would help.
func TestAVMThatCannotMoveAndDidNotConsentBlocks(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t,
		c.VM(ns, "unset").On(host).PinnedTo(pool).Annotate(immovable, passthrough),
		c.VM(ns, "live").On(host).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate).Annotate(immovable, passthrough),
		c.VM(ns, "external").On(host).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyExternal).Annotate(immovable, passthrough),
		c.VM(ns, "agrees").On(host).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyNone).Annotate(immovable, passthrough),
		c.VM(ns, "shutdown").On(host).PinnedTo(pool).Strategy("Shutdown").Annotate(immovable, passthrough),
		operator.Movable(c, ns, "healthy", pool),
	)
	mark := c.Audit(t, "drydock")

	operator.Request(t, c, host)
	message := maintenance.Condition(awaitRefused(t, c, host, ns+"/unset", ns+"/live", ns+"/external",
		"HostDeviceNotLiveMigratable: VMI uses a PCI host device", "kubectl label vm -n "+ns, maintenance.LabelStrategy)).Message
	for _, name := range []string{"agrees", "shutdown", "healthy"} {
		if strings.Contains(message, ns+"/"+name) {
			t.Errorf("VM %s does not block and is named: %s", name, message)
		}
	}
	for _, r := range writes(t, mark, ns, "") {
		t.Errorf("the request was refused, and this was done: %s", r)
	}
}
