package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// Cases 11 and 12: each VM that cannot move is named with its own reason before
// anything is touched; force stops exactly those.
func TestARequestIsRefusedWithTheReasonOfEachVMThatCannotMove(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t,
		operator.Movable(c, ns, "device", pool).Annotate("sim.drydock.dev/not-live-migratable", "HostDeviceNotLiveMigratable: VMI uses a PCI host device"),
		operator.Movable(c, ns, "disk", pool).Annotate("sim.drydock.dev/not-live-migratable", "DisksNotLiveMigratable: container disk"),
		operator.Movable(c, ns, "selector", pool).Change(func(vm *virtv1.VirtualMachine) {
			vm.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: host}
		}),
		c.VM(ns, "affinity").On(host).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate).Change(func(vm *virtv1.VirtualMachine) {
			vm.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}},
				}}},
			}
		}),
		operator.Movable(c, ns, "healthy", pool))
	blocked := []string{"device", "disk", "selector", "affinity"}
	history := c.RecordNode(t, host)

	operator.Request(t, c, host)
	message := operator.Message(awaitRefused(t, c, host,
		"VM "+ns+"/device cannot be live-migrated: HostDeviceNotLiveMigratable", "VM "+ns+"/disk cannot be live-migrated: DisksNotLiveMigratable",
		"VM "+ns+"/selector no other ready", "VM "+ns+"/affinity no other ready", "kubectl label vm -n "+ns))
	if strings.Contains(message, "healthy") {
		t.Errorf("the VM that can move is named: %s", message)
	}
	never(t, "a refused node was cordoned", history.To(t, getNode(t, c, host)), unschedulable)

	operator.Force(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitRunningOn(t, c, ns, "healthy", other)
	operator.AwaitMessage(t, c, host, "stopped by force, off until somebody starts them: "+ns+"/affinity, "+ns+"/device, "+ns+"/disk, "+ns+"/selector")
	for _, name := range blocked {
		if vm := operator.GetVM(t, c, ns, name); !halted(vm) || operator.HasMarker(vm) {
			t.Errorf("%s: %s", name, brief(vm))
		}
	}
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	for _, name := range blocked {
		if vm := operator.AwaitForgotten(t, c, ns, name); !halted(vm) {
			t.Errorf("%s: %s", name, brief(vm))
		}
	}
}

// KubeVirt says that it can migrate, and no other host has its CPU.
func TestAVMWhoseCPUExistsNowhereElseIsFoundBeforehand(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns := c.Namespace(t)
	pool := c.Pool(t, 1, cluster.Annotation("sim.drydock.dev/cpu-model", "OnlyHere"))
	other := pool.Label + "-other"
	c.Node(t, other, cluster.Label("test.drydock.dev/pool", pool.Label))
	operator.Create(t, operator.Movable(c, ns, "a", pool).Change(func(vm *virtv1.VirtualMachine) {
		vm.Spec.Template.Spec.Domain.CPU = &virtv1.CPU{Model: "OnlyHere"}
	}))
	host := pool.Host(0)
	operator.Request(t, c, host)
	awaitRefused(t, c, host, "VM "+ns+"/a no other ready")
}

// Memory refuses nothing, since only the scheduler knows: it is warned of, and the
// scheduler's reason is shown.
func TestAVMThatFitsNowhereElseIsNamedWithTheSchedulersReason(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Annotate(t, c, host, map[string]string{"sim.drydock.dev/memory": "64Ti"})
	c.AwaitNode(t, host, "is huge", func(n *corev1.Node) bool { return n.Status.Allocatable.Memory().Value() > 60<<40 })
	operator.Create(t, operator.Movable(c, ns, "b", pool).Change(func(vm *virtv1.VirtualMachine) {
		vm.Spec.Template.Spec.Domain.Resources.Requests[corev1.ResourceMemory] = resource.MustParse("40Ti")
	}))
	history := c.RecordVM(t, ns, "b")
	operator.Request(t, c, host)
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceDraining", "warning: the virtual machines to move request", "of memory, the remaining nodes have")
	awaitStuck(t, c, ns, "b", host)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	never(t, "the VM was stopped", history.To(t, operator.GetVM(t, c, ns, "b")), halted)
	operator.AwaitRunningOn(t, c, ns, "b", host)
}

// A VM that asks to be shut down never blocks, whatever else is wrong.
func TestAVMThatIsShutDownNeverBlocks(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	sole, elsewhere := volume(t, c, ns, "sole", host), volume(t, c, ns, "elsewhere", host)
	operator.Create(t,
		operator.Movable(c, ns, "a", pool).Strategy("Shutdown").Annotate("sim.drydock.dev/not-live-migratable", "HostDeviceNotLiveMigratable: VMI uses a PCI host device"),
		operator.Movable(c, ns, "b", pool).Strategy("ShutdownAndRestartAfterDisable").Claim("sole"),
		operator.Movable(c, ns, "e", pool).Strategy("ShutdownAndRestartAfterEnable").Change(func(vm *virtv1.VirtualMachine) {
			vm.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: host}
		}),
		c.VM(ns, "c").On(other).PinnedTo(pool).Strategy("Shutdown").Claim("elsewhere"))
	awaitHealthy(t, c, sole, 1)
	awaitHealthy(t, c, elsewhere, 1)

	// A VM elsewhere would lose its disk, whatever its strategy.
	operator.Request(t, c, host)
	message := operator.Message(awaitRefused(t, c, host, "volume "+elsewhere, ns+"/c", "last healthy replica"))
	for _, name := range []string{"a", "b", "e"} {
		if strings.Contains(message, "VM "+ns+"/"+name) {
			t.Errorf("a VM that asks to be shut down blocks: %s", message)
		}
	}
	setRunStrategy(t, c, ns, "c", virtv1.RunStrategyHalted)
	c.AwaitNoVMI(t, ns, "c")

	operator.RequestUntilAdmitted(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitMessage(t, c, host, ns+"/b", "off until somebody starts them: "+ns+"/a", ns+"/e", "only healthy copy", sole, "remove no")
	for name, want := range map[string]string{"a": "", "b": host, "e": host} {
		if vm := operator.GetVM(t, c, ns, name); !halted(vm) || operator.Marker(vm) != want {
			t.Errorf("%s: %s, want marker %q", name, brief(vm), want)
		}
	}
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	for _, name := range []string{"b", "e"} {
		operator.AwaitRunningOn(t, c, ns, name, pool.Hosts...)
		operator.AwaitForgotten(t, c, ns, name)
	}
	if vm := operator.AwaitForgotten(t, c, ns, "a"); !halted(vm) {
		t.Errorf("a: %s", brief(vm))
	}
}

// Force stops every VM with a shutdown strategy for good.
func TestForceKeepsWhatItStopsOff(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t, forceable(c, ns, pool)...)
	operator.Request(t, c, host)
	awaitRefused(t, c, host, ns+"/c", "a device")
	operator.Force(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitMessage(t, c, host, "stopped by force, off until somebody starts them: "+ns+"/a, "+ns+"/b, "+ns+"/c")
	operator.AwaitRunningOn(t, c, ns, "d", other)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	awaitPass(t, c, host)
	for _, name := range []string{"a", "b", "c"} {
		if vm := operator.AwaitForgotten(t, c, ns, name); !halted(vm) {
			t.Errorf("%s: %s", name, brief(vm))
		}
		c.AwaitNoVMI(t, ns, name)
	}
}

func forceable(c *cluster.Cluster, ns string, pool *cluster.Pool) []*cluster.VM {
	const stays = "sim.drydock.dev/not-live-migratable"
	return []*cluster.VM{
		operator.Movable(c, ns, "a", pool).Strategy("ShutdownAndRestartAfterDisable").Annotate(stays, "HostDeviceNotLiveMigratable: a device"),
		operator.Movable(c, ns, "b", pool).Strategy("ShutdownAndRestartAfterEnable"),
		operator.Movable(c, ns, "c", pool).Annotate(stays, "HostDeviceNotLiveMigratable: a device"),
		operator.Movable(c, ns, "d", pool),
	}
}
