package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// ownerWrote are the ways in which an owner says that a VM shall run.
var ownerWrote = map[string]func(*cluster.VM) *cluster.VM{
	"always":   func(vm *cluster.VM) *cluster.VM { return vm.RunStrategy(virtv1.RunStrategyAlways) },
	"rerun":    func(vm *cluster.VM) *cluster.VM { return vm.RunStrategy(virtv1.RunStrategyRerunOnFailure) },
	"manual":   func(vm *cluster.VM) *cluster.VM { return vm.RunStrategy(virtv1.RunStrategyManual) },
	"once":     func(vm *cluster.VM) *cluster.VM { return vm.RunStrategy(virtv1.RunStrategyOnce) },
	"oldstyle": func(vm *cluster.VM) *cluster.VM { return vm.Running(true) },
}

// cycled is a VM on its way through a maintenance.
type cycled struct {
	name, way, strategy string
	before              string
	first               types.UID
	vm                  *cluster.History[*virtv1.VirtualMachine]
	vmi                 *cluster.History[*virtv1.VirtualMachineInstance]
}

func (v *cycled) manual() bool { return v.way == "manual" }

// cycle makes a VM of each way and each restart strategy on the host.
func cycle(t *testing.T, c *cluster.Cluster, ns, host string, pool *cluster.Pool) []*cycled {
	t.Helper()
	var list []*cycled
	for way, write := range ownerWrote {
		for suffix, strategy := range map[string]maintenance.Strategy{"soon": maintenance.StrategyRestartAfterEnable, "later": maintenance.StrategyRestartAfterDisable} {
			v := &cycled{name: way + "-" + suffix, way: way, strategy: string(strategy)}
			made := write(c.VM(ns, v.name).On(host).PinnedTo(pool).Strategy(v.strategy)).Submit(t)
			v.before = runStrategy(made)
			if v.manual() {
				start(t, c, ns, v.name)
			}
			list = append(list, v)
		}
	}
	for _, v := range list {
		v.first = c.AwaitVMI(t, ns, v.name, "the VM runs", cluster.IsRunning).UID
		v.vm, v.vmi = c.RecordVM(t, ns, v.name), c.RecordVMI(t, ns, v.name)
	}
	return list
}

// start starts a VM as `virtctl start` does.
func start(t *testing.T, c *cluster.Cluster, namespace, name string) {
	t.Helper()
	if err := c.KubeVirt.KubevirtV1().VirtualMachines(namespace).Start(t.Context(), name, &virtv1.StartOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Each run strategy comes back as its owner wrote it, and the VM runs exactly once
// more, by whatever means KubeVirt needs for it.
func TestEachRunStrategyComesBackAsItsOwnerWroteIt(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	list := cycle(t, c, ns, host, pool)
	mark := c.Audit(t, "drydock")

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	rubbish := map[string]any{"always": nil, "rerun": "", "manual": "Sometimes", "once": "Halted", "oldstyle": "RerunOnFailure"}
	for _, v := range list {
		if v.strategy == string(maintenance.StrategyRestartAfterEnable) {
			operator.AwaitRunningOn(t, c, ns, v.name, other)
			continue
		}
		c.AwaitNoVMI(t, ns, v.name)
		if got := operator.Marker(operator.GetVM(t, c, ns, v.name)); got != host {
			t.Errorf("%s: the marker is %q, want %q", v.name, got, host)
		}
		// What others write into the annotation that Harvester shares is no reason to guess.
		operator.PatchVM(t, c, ns, v.name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{maintenance.AnnotationRunStrategy: rubbish[v.way]}}})
	}

	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	for _, v := range list {
		vmi := c.AwaitVMI(t, ns, v.name, "the VM runs again", func(vmi *virtv1.VirtualMachineInstance) bool {
			return vmi.UID != v.first && cluster.IsRunning(vmi)
		})
		vm := operator.AwaitForgotten(t, c, ns, v.name)
		if got := runStrategy(vm); got != v.before || (vm.Spec.Running != nil && vm.Spec.RunStrategy != nil) {
			t.Errorf("%s: the owner wrote %q, after the cycle it is %q", v.name, v.before, got)
		}
		v.vmi.Until(t, "the new VMI", func(seen *virtv1.VirtualMachineInstance) bool { return seen.UID == vmi.UID })
		if n := len(instances(v.vmi.Versions())); n != 2 {
			t.Errorf("%s: %d VMIs were seen, want the one before and the one after", v.name, n)
		}
		if ways := runs(v.vm.To(t, vm)); len(ways) != 3 || ways[0] != ways[2] {
			t.Errorf("%s: its run strategies were %q, want a stop and a start", v.name, ways)
		}
	}
	called := map[string]int{}
	for _, r := range callsOf(mark.Requests(t), ns, "virtualmachines", "start") {
		called[r.Name]++
	}
	for _, v := range list {
		switch {
		case v.way == "rerun" && called[v.name] > 0:
			// KubeVirt was slower than Drydock's patience: that is allowed.
		case v.manual() != (called[v.name] > 0):
			t.Errorf("%s: the start subresource was called %d times", v.name, called[v.name])
		}
	}
}

// A VM that had ended by itself before is off because its owner wanted it so: nothing
// about it is written, since a run strategy that is touched may count as a request.
func TestAVMThatWasOffBeforeIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	names := []string{}
	for suffix, strategy := range map[string]maintenance.Strategy{"soon": maintenance.StrategyRestartAfterEnable, "later": maintenance.StrategyRestartAfterDisable} {
		for how, build := range map[string]func(*cluster.VM) *cluster.VM{
			"halted": func(vm *cluster.VM) *cluster.VM { return vm.RunStrategy(virtv1.RunStrategyHalted) },
			"manual": func(vm *cluster.VM) *cluster.VM { return vm.RunStrategy(virtv1.RunStrategyManual) },
			"ended": func(vm *cluster.VM) *cluster.VM {
				return vm.RunStrategy(virtv1.RunStrategyRerunOnFailure).Annotate("sim.drydock.dev/guest", "power-off")
			},
		} {
			name := how + "-" + suffix
			build(c.VM(ns, name).On(host).PinnedTo(pool).Strategy(string(strategy))).Submit(t)
			names = append(names, name)
			if how == "ended" {
				c.AwaitVMI(t, ns, name, "the guest has ended", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.Status.Phase == virtv1.Succeeded })
			}
		}
	}
	histories := map[string]*cluster.History[*virtv1.VirtualMachine]{}
	vmis := map[string]*cluster.History[*virtv1.VirtualMachineInstance]{}
	for _, name := range names {
		histories[name], vmis[name] = c.RecordVM(t, ns, name), c.RecordVMI(t, ns, name)
	}

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)

	for _, name := range names {
		first := histories[name].Versions()[0]
		for _, vm := range histories[name].Versions() {
			if runStrategy(vm) != runStrategy(first) || operator.Marker(vm) != "" || vm.Annotations[maintenance.AnnotationVMRecord] != "" {
				t.Errorf("%s: it was off before, and was changed to %s with annotations %v", name, runStrategy(vm), vm.Annotations)
				break
			}
		}
		if n := len(instances(vmis[name].Versions())); n > 1 {
			t.Errorf("%s: it was off before and was started", name)
		}
	}
}

// A tool writes its manifest back while the guest shuts down. KubeVirt takes note of
// RerunOnFailure then and does not start it afterwards, so that Drydock does; Manual asks
// for no start, and the VM waits for leaving as before.
func TestARunStrategyThatIsWrittenBackDuringTheShutdownIsObeyed(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	strategies := map[string]virtv1.VirtualMachineRunStrategy{"rerun": virtv1.RunStrategyRerunOnFailure, "manual": virtv1.RunStrategyManual}
	for name, strategy := range strategies {
		c.VM(ns, name).On(host).PinnedTo(pool).RunStrategy(strategy).Strategy("ShutdownAndRestartAfterDisable").
			Annotate("sim.drydock.dev/shutdown-seconds", "never").
			Change(func(vm *virtv1.VirtualMachine) { vm.Spec.Template.Spec.TerminationGracePeriodSeconds = seconds(600) }).Submit(t)
		if strategy == virtv1.RunStrategyManual {
			start(t, c, ns, name)
		}
	}
	for name := range strategies {
		c.AwaitVMI(t, ns, name, "the VM runs", cluster.IsRunning)
	}
	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "2 shutting down")
	for name, strategy := range strategies {
		c.AwaitVM(t, ns, name, "KubeVirt has seen the stop", func(vm *virtv1.VirtualMachine) bool { return vm.Status.RunStrategy == virtv1.RunStrategyHalted })
		setRunStrategy(t, c, ns, name, strategy)
		c.AwaitVM(t, ns, name, "KubeVirt has seen it taken back", func(vm *virtv1.VirtualMachine) bool { return vm.Status.RunStrategy == strategy })
		operator.AnnotateVMI(t, c, ns, name, map[string]string{"sim.drydock.dev/shutdown-seconds": "0"})
	}
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitRunningOn(t, c, ns, "rerun", other)
	operator.AwaitForgotten(t, c, ns, "rerun")
	c.AwaitNoVMI(t, ns, "manual")
	operator.AwaitMessage(t, c, host, "started on leaving: "+ns+"/manual")
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	operator.AwaitRunningOn(t, c, ns, "manual", host, other)
	operator.AwaitForgotten(t, c, ns, "manual")
}
