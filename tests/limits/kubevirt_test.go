package limits

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// configure sets what KubeVirt's resource says of migrations.
func configure(ctx context.Context, t *testing.T, c *cluster.Cluster, migrations map[string]any) {
	t.Helper()
	if err := operator.ConfigureMigrations(ctx, c, migrations); err != nil {
		t.Fatal(err)
	}
}

// What the KubeVirt resource says counts, also when it changes: its limits, and the taint
// by which others ask for evacuation.
func TestKubeVirtsConfigurationIsObeyed(t *testing.T) {
	const drain, slow, quick = "test.drydock.dev/drain", "never", "0.1"
	c := cluster.For(t)
	configure(t.Context(), t, c, map[string]any{"parallelMigrationsPerCluster": 1, "parallelOutboundMigrationsPerNode": 5, "nodeDrainTaintKey": drain})
	t.Cleanup(func() {
		configure(context.WithoutCancel(t.Context()), t, c, map[string]any{"parallelMigrationsPerCluster": nil, "parallelOutboundMigrationsPerNode": nil, "nodeDrainTaintKey": nil})
	})
	drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 3)
	host, second := pool.Host(0), pool.Host(1)
	operator.Create(t,
		operator.Movable(c, ns, "a", pool).Annotate("sim.drydock.dev/migration-seconds", slow),
		operator.Movable(c, ns, "b", pool).Annotate("sim.drydock.dev/migration-seconds", slow),
		operator.Movable(c, ns, "c", pool).On(second).Annotate("sim.drydock.dev/migration-seconds", slow))
	// Nothing is to come to the node that is drained second.
	operator.PatchNode(t, c, second, map[string]any{"spec": map[string]any{"unschedulable": true}})
	waits := func(node string, migrating, waiting string) {
		t.Helper()
		c.AwaitNode(t, node, migrating+waiting+" for a slot", func(n *corev1.Node) bool {
			return operator.Holds(operator.Message(n), []string{migrating, waiting}) && strings.Count(n.Annotations[maintenance.AnnotationProgress], "is waiting for a migration slot") == 1
		})
	}
	// One in the cluster.
	operator.Request(t, c, host)
	waits(host, "1 migrating (", "1 waiting")
	operator.Request(t, c, second)
	waits(second, "", "1 waiting")
	// One of each node.
	configure(t.Context(), t, c, map[string]any{"parallelMigrationsPerCluster": 5, "parallelOutboundMigrationsPerNode": 1})
	operator.AwaitMessage(t, c, second, "1 of 1 VMs left: 1 migrating")
	operator.Request(t, c, host)
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceRequestIgnored")
	marked := 0
	for _, name := range []string{"a", "b"} {
		vmi, err := c.KubeVirt.KubevirtV1().VirtualMachineInstances(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if vmi.Status.EvacuationNodeName != "" {
			marked++
		}
	}
	if marked != 1 {
		t.Errorf("%d VMs are leaving the node, where KubeVirt migrates one at a time", marked)
	}

	// KubeVirt refuses to cancel while its own taint stands; the usual one is none here.
	node, err := c.Kube.CoreV1().Nodes().Get(t.Context(), host, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	taints := node.Spec.Taints
	for _, key := range []string{drain, maintenance.DefaultDrainTaint} {
		taints = append(taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	operator.PatchNode(t, c, host, map[string]any{"spec": map[string]any{"taints": taints}})
	operator.Leave(t, c, host)
	left := map[string]bool{}
	for _, taint := range operator.AwaitOut(t, c, host).Spec.Taints {
		left[taint.Key] = true
	}
	if left[drain] || !left[maintenance.DefaultDrainTaint] {
		t.Errorf("after leaving, the node has the taints %v", left)
	}
	for _, name := range []string{"a", "b", "c"} {
		operator.AnnotateVMI(t, c, ns, name, map[string]string{"sim.drydock.dev/migration-seconds": quick})
	}
	operator.AwaitPhase(t, c, second, maintenance.PhaseCompleted)
	operator.Leave(t, c, second)
	operator.AwaitOut(t, c, second)
}
