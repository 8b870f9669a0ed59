package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

const drainTaint = "kubevirt.io/drain"

// KubeVirt tries for ever to move a VM that is marked, and refuses to take the mark
// back while the node has the drain taint.
func TestLeavingWithdrawsAnEvacuationThatFindsNoTarget(t *testing.T) {
	t.Parallel()
	for name, tainted := range map[string]bool{"": false, "while another tool's drain taint stands": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := drydock(t)
			ns, pool := c.Namespace(t), c.Pool(t, 2)
			host := pool.Host(0)
			operator.Create(t, big(t, c, ns, "big", pool))
			history, vmis := c.RecordNode(t, host), c.RecordVMI(t, ns, "big")
			operator.Request(t, c, host)
			awaitStuck(t, c, ns, "big", host)
			if tainted {
				addTaints(t, c, host, corev1.Taint{Key: drainTaint, Effect: corev1.TaintEffectNoSchedule})
			}

			operator.Leave(t, c, host)
			node := operator.AwaitOut(t, c, host)
			// Left means that KubeVirt has been told.
			if mark := getVMI(t, c, ns, "big").Status.EvacuationNodeName; mark != "" {
				t.Errorf("the node has left maintenance, and the VM is still marked to leave %s", mark)
			}
			awaitWithdrawn(t, c, ns, "big")
			before := migrationsOf(t, c, ns, "big")
			if node.Spec.Unschedulable || hasTaint(node, drainTaint) {
				t.Errorf("the node is still closed: unschedulable %t, taints %v", node.Spec.Unschedulable, node.Spec.Taints)
			}
			awaitPass(t, c, host)
			if after := migrationsOf(t, c, ns, "big"); len(after) > len(before) {
				t.Errorf("there are %d migrations, there were %d on leaving", len(after), len(before))
			}
			versions := vmis.To(t, getVMI(t, c, ns, "big"))
			never(t, "the VM did not keep running where it was", versions, func(vmi *virtv1.VirtualMachineInstance) bool {
				return vmi.Status.Phase != virtv1.Running || vmi.Status.NodeName != host
			})
			if got := cordons(history.To(t, getNode(t, c, host))); !slices.Equal(got, []bool{false, true, false}) {
				t.Errorf("the node was cordoned and uncordoned: %v", got)
			}
		})
	}
}

func TestLeavingLeavesAloneWhatOthersHadAskedOfKubeVirt(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t, operator.Movable(c, ns, "users", pool).Annotate("sim.drydock.dev/migration-seconds", "never"),
		big(t, c, ns, "marked", pool))
	users := migrate(t, c, ns, "users")
	evict(t, c, ns, "marked")
	c.AwaitVMI(t, ns, "marked", "marked by somebody else", func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmi.Status.EvacuationNodeName == host
	})

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseEvacuating)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	if mark := getVMI(t, c, ns, "marked").Status.EvacuationNodeName; mark != host {
		t.Errorf("the mark that stood before the request is %q, want %q", mark, host)
	}
	m, err := c.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(ns).Get(t.Context(), users, metav1.GetOptions{})
	if err != nil || m.DeletionTimestamp != nil || m.IsFinal() {
		t.Errorf("the user's migration was not left alone: %v (%v)", m, err)
	}
}

// evict asks for the eviction of a VM's launcher, as kubectl drain does.
func evict(t *testing.T, c *cluster.Cluster, namespace, vm string) {
	t.Helper()
	pod := launcherOf(t, c, namespace, vm)
	// KubeVirt marks the VMI and answers 429.
	_ = c.Kube.PolicyV1().Evictions(namespace).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod}})
}

func TestANodeCordonedByHandStaysCordonedAndKeepsItsTaints(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t, operator.Movable(c, ns, "later", pool).Strategy("ShutdownAndRestartAfterDisable"))
	setUnschedulable(t, c, host, true)
	addTaints(t, c, host, corev1.Taint{Key: "example.com/reserved", Value: "x", Effect: corev1.TaintEffectPreferNoSchedule})
	history := c.RecordNode(t, host)

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	addTaints(t, c, host, corev1.Taint{Key: drainTaint, Effect: corev1.TaintEffectNoSchedule})
	operator.Leave(t, c, host)
	node := operator.AwaitOut(t, c, host)
	if !node.Spec.Unschedulable {
		t.Error("the node was cordoned before maintenance and is not afterwards")
	}
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceLeft", "stays cordoned")
	if hasTaint(node, drainTaint) {
		t.Error("the drain taint still stands")
	}
	if !hasTaint(node, "example.com/reserved") {
		t.Errorf("somebody else's taint is gone: %v", node.Spec.Taints)
	}
	if got := cordons(history.To(t, node)); len(got) != 1 {
		t.Errorf("the node was uncordoned in between: %v", got)
	}
	// Maintenance is over for the VM as well; where it may run is not Drydock's to say.
	operator.AwaitRunningOn(t, c, ns, "later", pool.Host(1))
	operator.AwaitForgotten(t, c, ns, "later")
}

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

// A controller that decides on what it saw a moment ago must not act on it.
func TestARequestTakenBackAtOnceLeavesNothing(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	pool := c.Pool(t, 2)
	host := pool.Host(0)
	history := c.RecordNode(t, host)
	const rounds = 5
	for range rounds {
		operator.Request(t, c, host)
		disable(t, c, host)
	}
	awaitPass(t, c, host)
	node := operator.AwaitOut(t, c, host)
	if node.Spec.Unschedulable {
		t.Error("the node is cordoned")
	}
	for _, version := range history.To(t, node) {
		if version.Spec.Unschedulable && version.Annotations[maintenance.AnnotationNodeRecord] == "" {
			t.Errorf("the node is cordoned and nothing says why: %s", brief(version))
		}
	}
}
