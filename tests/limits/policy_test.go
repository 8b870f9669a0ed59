package limits

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/manager"

	"github.com/drydock-dev/drydock/tests/operator"
)

// As the newer proposal has it, force only widens what may be stopped.
func TestForceHonoursTheStrategyWhereThePolicySaysSo(t *testing.T) {
	c, m := drydock(t, "--force-policy", "honor-strategy", "--live-migrate-if-possible-consents", "no")
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	const stays = "sim.drydock.dev/not-live-migratable"
	operator.Create(t,
		operator.Movable(c, ns, "a", pool).Strategy("ShutdownAndRestartAfterDisable").Annotate(stays, "HostDeviceNotLiveMigratable: a device"),
		operator.Movable(c, ns, "b", pool).Strategy("ShutdownAndRestartAfterEnable"),
		operator.Movable(c, ns, "c", pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrateIfPossible).Annotate(stays, "HostDeviceNotLiveMigratable: a device"),
		operator.Movable(c, ns, "d", pool))
	before := c.RecordVMI(t, ns, "d")

	// By the other flag c's eviction strategy is no consent.
	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "refused", ns+"/c cannot be live-migrated")
	operator.Force(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	if a := operator.GetVM(t, c, ns, "a"); operator.Marker(a) != host || !halted(a) {
		t.Errorf("a has marker %q, want it stopped with %q", operator.Marker(a), host)
	}
	operator.AwaitRunningOn(t, c, ns, "b", other)
	operator.AwaitRunningOn(t, c, ns, "d", other)
	for _, version := range before.Versions() {
		if version.UID != before.Versions()[0].UID {
			t.Error("d was stopped instead of moved")
			break
		}
	}
	operator.AwaitMessage(t, c, host, "started on leaving: "+ns+"/a", "stopped by force, off until somebody starts them: "+ns+"/c")
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	operator.AwaitRunningOn(t, c, ns, "a", pool.Hosts...)
	operator.AwaitForgotten(t, c, ns, "a")
	if vm := operator.AwaitForgotten(t, c, ns, "c"); !halted(vm) {
		t.Error("c was stopped by force and is started without anybody's asking")
	}

	// The log speaks as the enhancement's test plan has it.
	for _, want := range []struct{ text, vm string }{
		{"attempting to place node in maintenance mode", ""},
		{"force stopping VM", "c"},
		{"migration of pod owned by VM " + ns + "/a is skipped because of the label harvesterhci.io/maintain-mode-strategy", "a"},
		{"restarting the VM that was temporary shut down for maintenance mode", "b"},
		{"restarting the VM that was shut down in maintenance mode", "a"},
	} {
		if _, err := m.AwaitLine(func(l manager.Line) bool {
			return strings.HasPrefix(l.Message, want.text) && (want.vm == "" || l.VM == want.vm)
		}); err != nil {
			t.Errorf("the log has no line %q about VM %q", want.text, want.vm)
		}
	}
}

// Something has to remain on which anything can be placed.
func TestTheLastNodeIsRefusedWithForceAsWell(t *testing.T) {
	c, _ := drydock(t)
	pool := c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	nodes, err := c.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		if node.Name == host || node.Spec.Unschedulable {
			continue
		}
		operator.PatchNode(t, c, node.Name, map[string]any{"spec": map[string]any{"unschedulable": true}})
		defer operator.PatchNode(t, c, node.Name, map[string]any{"spec": map[string]any{"unschedulable": nil}})
	}
	for _, forced := range []string{"", "true"} {
		operator.Annotate(t, c, host, map[string]string{maintenance.AnnotationRequested: "true", maintenance.AnnotationForced: forced})
		node := c.AwaitNode(t, host, "refused", func(n *corev1.Node) bool {
			_, asks := n.Annotations[maintenance.AnnotationRequested]
			return !asks && operator.Holds(operator.Message(n), []string{"refused", "no other node would remain ready, schedulable and out of maintenance"})
		})
		if node.Spec.Unschedulable || maintenance.Engaged(node) {
			t.Errorf("a refused node is engaged: %v", node.Annotations)
		}
	}
	operator.PatchNode(t, c, other, map[string]any{"spec": map[string]any{"unschedulable": nil}})
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
}
