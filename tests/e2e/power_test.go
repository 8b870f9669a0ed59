package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// power pulls the plug of a host, or puts it back, and waits until the cluster knows.
func power(t *testing.T, c *cluster.Cluster, host string, on bool) {
	t.Helper()
	operator.Annotate(t, c, host, map[string]string{"sim.drydock.dev/power": map[bool]string{true: "on", false: "off"}[on]})
	c.AwaitNode(t, host, map[bool]string{true: "ready", false: "not ready"}[on], func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(condition corev1.NodeCondition) bool {
			return condition.Type == corev1.NodeReady && (condition.Status == corev1.ConditionTrue) == on
		})
	})
}

// The kubelet dies in the middle of a drain: what ran there may still run. Nothing of it
// is started elsewhere, a pod that hangs for ever is not waited for, and the drain ends
// by itself when the node is back.
func TestANodeThatDiesWhileItDrains(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Create(t,
		operator.Movable(c, ns, "moving", pool).Annotate(migrationSeconds, "never"),
		c.VM(ns, "later").On(host).PinnedTo(pool).Strategy("ShutdownAndRestartAfterDisable").Annotate("sim.drydock.dev/shutdown-seconds", "never"),
		c.VM(ns, "soon").On(host).PinnedTo(pool).Strategy("ShutdownAndRestartAfterEnable").Annotate("sim.drydock.dev/shutdown-seconds", "never"))
	slow := plainPod(ns, "slow", host)
	slow.Annotations = map[string]string{"sim.drydock.dev/termination-seconds": "never"}
	slow.Spec.TerminationGracePeriodSeconds = seconds(600)
	createPods(t, c, slow)
	vmis := map[string]*cluster.History[*virtv1.VirtualMachineInstance]{}
	for _, name := range []string{"later", "soon"} {
		vmis[name] = c.RecordVMI(t, ns, name)
	}

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "2 shutting down", "1 pod left")
	power(t, c, host, false)
	operator.AwaitMessage(t, c, host, "not Ready", "may still be running there", "3 of 3 VMs left")
	node := c.AwaitNode(t, host, "the hanging pod is not waited for any more", func(n *corev1.Node) bool {
		condition := maintenance.Condition(n)
		return condition != nil && !operator.Holds(condition.Message, []string{"pods left"}) && !operator.Holds(condition.Message, []string{"pod left"})
	})
	if phase := maintenance.PhaseOf(node); phase == maintenance.PhaseCompleted {
		t.Error("the node is Completed, and its VMs may still be running there")
	}
	for name, history := range vmis {
		if n := len(instances(history.Versions())); n != 1 {
			t.Errorf("%s has had %d VMIs while the first may still run", name, n)
		}
	}

	power(t, c, host, true)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitRunningOn(t, c, ns, "soon", other)
	operator.AwaitRunningOn(t, c, ns, "moving", other)
	if vm := operator.GetVM(t, c, ns, "later"); !halted(vm) {
		t.Errorf("the VM that waits for leaving is %s", runStrategy(vm))
	}
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	operator.AwaitRunningOn(t, c, ns, "later", host, other)
	for name, history := range vmis {
		if n := len(instances(history.Versions())); n > 2 {
			t.Errorf("%s has had %d VMIs", name, n)
		}
	}
}

// A node that lost its power in maintenance may still run what was stopped on it: its
// VMs are listed, not started, until it is back, or an administrator vouches for it.
func TestAVMIsNotStartedWhileItsNodeMayStillRunIt(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(*testing.T, *cluster.Cluster, string){
		"the node comes back": func(t *testing.T, c *cluster.Cluster, host string) { power(t, c, host, true) },
		"the node is declared out of service": func(t *testing.T, c *cluster.Cluster, host string) {
			taintAs(t, c, host, corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := drydock(t)
			ns, pool := c.Namespace(t), c.Pool(t, 2)
			host, other := pool.Host(0), pool.Host(1)
			operator.Create(t, c.VM(ns, "later").On(host).PinnedTo(pool).Strategy("ShutdownAndRestartAfterDisable"))
			operator.Request(t, c, host)
			operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
			c.AwaitNoVMI(t, ns, "later")
			power(t, c, host, false)

			operator.Leave(t, c, host)
			operator.AwaitOut(t, c, host)
			operator.AwaitEvent(t, c, "VirtualMachine", ns, "later", "MaintenanceStartWaiting", host, "not Ready", "may still run it")
			if vm := operator.GetVM(t, c, ns, "later"); !halted(vm) || operator.Marker(vm) != host {
				t.Errorf("the VM should wait for the node: it is %s with marker %q", runStrategy(vm), operator.Marker(vm))
			}
			back(t, c, host)
			operator.AwaitRunningOn(t, c, ns, "later", host, other)
			operator.AwaitForgotten(t, c, ns, "later")
		})
	}
}

// Without force a node that is not Ready is refused, since its VMs may still be running
// there; with force the drain says so and waits.
func TestADeadNodeIsRefusedUnlessForced(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t, operator.Movable(c, ns, "a", pool), c.VM(ns, "b").On(host).PinnedTo(pool).Strategy("ShutdownAndRestartAfterDisable"))
	vmis := c.RecordVMI(t, ns, "b")
	power(t, c, host, false)

	operator.Request(t, c, host)
	awaitRefused(t, c, host, "not Ready", "may still be running there")
	operator.Force(t, c, host)
	operator.AwaitMessage(t, c, host, "2 of 2 VMs left", "not Ready", "may still be running there")
	if n := len(instances(vmis.Versions())); n != 1 {
		t.Errorf("the VM on the dead node has had %d VMIs", n)
	}
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	power(t, c, host, true)
}
