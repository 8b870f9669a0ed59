// Package takeover tests Drydock beside Harvester's own controllers (--harvester=takeover),
// which a stand-in plays, quick and slow. Whoever fails or is restarted, one drains a
// node, and each VM is stopped and started once.
package takeover

import (
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
)

func TestMain(m *testing.M) {
	code := cluster.Main(m)
	manager.Remove()
	os.Exit(code)
}

// vms are what a node is emptied of: one to move, one to come back elsewhere, and one for
// each run strategy to come back on leaving.
type vms struct {
	c         *cluster.Cluster
	namespace string
	host      string
	other     string
	histories map[string]*cluster.History[*virtv1.VirtualMachineInstance]
}

const (
	moves  = "moves"
	enable = "enable"
)

var disable = map[string]virtv1.VirtualMachineRunStrategy{
	"always": virtv1.RunStrategyAlways, "manual": virtv1.RunStrategyManual, "rerun": virtv1.RunStrategyRerunOnFailure,
}

func create(t *testing.T, c *cluster.Cluster) *vms {
	t.Helper()
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	v := &vms{c: c, namespace: ns, host: pool.Host(0), other: pool.Host(1), histories: map[string]*cluster.History[*virtv1.VirtualMachineInstance]{}}
	grace := int64(1)
	quick := func(vm *virtv1.VirtualMachine) { vm.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace }
	all := []*cluster.VM{
		operator.Movable(c, ns, moves, pool),
		c.VM(ns, enable).On(v.host).PinnedTo(pool).Strategy(string(maintenance.StrategyRestartAfterEnable)).Change(quick),
	}
	for name, run := range disable {
		all = append(all, c.VM(ns, name).On(v.host).PinnedTo(pool).RunStrategy(run).Strategy(string(maintenance.StrategyRestartAfterDisable)).Change(quick))
	}
	for _, vm := range all {
		vm.Submit(t)
	}
	if err := c.KubeVirt.KubevirtV1().VirtualMachines(ns).Start(t.Context(), "manual", &virtv1.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, vm := range all {
		vm.AwaitRunning(t)
	}
	for _, name := range v.names() {
		v.histories[name] = c.RecordVMI(t, ns, name)
	}
	return v
}

func (v *vms) names() []string {
	names := []string{moves, enable}
	for name := range disable {
		names = append(names, name)
	}
	return names
}

// awaitBack waits for the end of the story, and fails when a VM was started twice or has
// another run strategy than before.
func (v *vms) awaitBack(t *testing.T) {
	t.Helper()
	for _, name := range v.names() {
		vmi := operator.AwaitRunningOn(t, v.c, v.namespace, name, v.host, v.other)
		vm := operator.AwaitForgotten(t, v.c, v.namespace, name)
		if want, ok := disable[name]; ok && (vm.Spec.RunStrategy == nil || *vm.Spec.RunStrategy != want) {
			t.Errorf("VM %s has run strategy %v, want %s", name, vm.Spec.RunStrategy, want)
		}
		var lives []types.UID
		for _, vmi := range v.histories[name].To(t, vmi) {
			if !slices.Contains(lives, vmi.UID) {
				lives = append(lives, vmi.UID)
			}
		}
		want := 2
		if name == moves {
			want = 1
		}
		if len(lives) != want {
			t.Errorf("VM %s had %d lives, want %d", name, len(lives), want)
		}
	}
}

// awaitFree waits until a node is out of maintenance by everybody's reading.
func awaitFree(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	c.AwaitNode(t, name, "out of maintenance", func(node *corev1.Node) bool {
		return !maintenance.Takeover.Engaged(node) && maintenance.Condition(node) == nil && !node.Spec.Unschedulable && !maintenance.Takeover.Request(node).Present
	})
}

func forPaces(t *testing.T, story func(t *testing.T, pace time.Duration)) {
	for name, pace := range map[string]time.Duration{"quick": 0, "slow": 3 * time.Second} {
		t.Run(name, func(t *testing.T) { story(t, pace) })
	}
}

// Whoever asks in Harvester's words, Harvester's controllers see no request, and its
// Disable handler ends what Drydock began.
func TestDrydockServesTheRequestInstead(t *testing.T) {
	c := cluster.For(t)
	drydock(t, c)
	forPaces(t, func(t *testing.T, pace time.Duration) {
		h, _ := start(t, c, pace)
		h.calls = pace == 0
		v := create(t, c)
		history := c.RecordNode(t, v.host)
		operator.Request(t, c, v.host)
		operator.AwaitPhase(t, c, v.host, maintenance.PhaseCompleted)
		operator.AwaitRunningOn(t, c, v.namespace, enable, v.other)
		h.disable(t, v.host)
		awaitFree(t, c, v.host)
		v.awaitBack(t)
		if served := h.drained(); len(served) > 0 {
			t.Errorf("Harvester served requests for %v", served)
		}
		for _, node := range history.Versions() {
			if _, ok := node.Annotations[maintenance.AnnotationRequested]; ok || node.Annotations[maintenance.AnnotationStatus] == maintenance.StatusRunning {
				t.Errorf("Harvester saw %v", node.Annotations)
			}
		}
	})
	t.Run("refused, then forced", func(t *testing.T) { refusedThenForced(t, c) })
}

// refusedThenForced asks for a host with a VM that cannot move. Harvester would have drained
// it; it is refused, and Harvester sees neither that request nor the one with force.
func refusedThenForced(t *testing.T, c *cluster.Cluster) {
	h, _ := start(t, c, 0)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t, operator.Movable(c, ns, "stuck", pool).Annotate("sim.drydock.dev/not-live-migratable", "HostDeviceNotLiveMigratable: a device"))
	history := c.RecordNode(t, host)
	operator.Request(t, c, host)
	refused := operator.AwaitMessage(t, c, host, "refused", ns+"/stuck cannot be live-migrated")
	if maintenance.Takeover.Engaged(refused) || maintenance.Takeover.Request(refused).Present || refused.Spec.Unschedulable {
		t.Errorf("the request was refused, and the node shows %v", refused.Annotations)
	}
	operator.Force(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	c.AwaitNoVMI(t, ns, "stuck")
	h.disable(t, host)
	awaitFree(t, c, host)
	if vm := operator.AwaitForgotten(t, c, ns, "stuck"); *vm.Spec.RunStrategy != virtv1.RunStrategyHalted {
		t.Errorf("stopped by force, the VM has run strategy %s", *vm.Spec.RunStrategy)
	}
	for _, node := range history.Versions() {
		for _, key := range []string{maintenance.AnnotationRequested, maintenance.AnnotationForced} {
			if _, ok := node.Annotations[key]; ok {
				t.Errorf("Harvester saw %v", node.Annotations)
			}
		}
	}
	if served := h.drained(); len(served) > 0 {
		t.Errorf("Harvester served requests for %v", served)
	}
}

// Harvester's front-end offers Disable while the node is draining, for the first time.
func TestDisableCancelsADrain(t *testing.T) {
	c := cluster.For(t)
	drydock(t, c)
	forPaces(t, func(t *testing.T, pace time.Duration) {
		h, _ := start(t, c, pace)
		v := create(t, c)
		operator.AnnotateVMI(t, c, v.namespace, moves, map[string]string{"sim.drydock.dev/migration-seconds": "600"})
		operator.Request(t, c, v.host)
		c.AwaitNode(t, v.host, "draining", func(node *corev1.Node) bool {
			return node.Annotations[maintenance.AnnotationStatus] == maintenance.StatusDraining && node.Spec.Unschedulable
		})
		for name := range disable {
			c.AwaitNoVMI(t, v.namespace, name)
		}
		operator.AnnotateVMI(t, c, v.namespace, moves, map[string]string{"sim.drydock.dev/migration-seconds": "1"})
		h.disable(t, v.host)
		awaitFree(t, c, v.host)
		v.awaitBack(t)
	})
}

// While the webhook is down Harvester serves the request alone. Drydock, back again,
// leaves that maintenance to it, and counts its node as out.
func TestWhatHarvesterServesIsLeftToIt(t *testing.T) {
	c := cluster.For(t)
	m := drydock(t, c)
	forPaces(t, func(t *testing.T, pace time.Duration) {
		h, _ := start(t, c, pace)
		v := create(t, c)
		m.end()
		operator.Request(t, c, v.host)
		c.AwaitNode(t, v.host, "cordoned by Harvester", func(node *corev1.Node) bool { return node.Spec.Unschedulable })
		m.begin()
		c.AwaitNode(t, v.host, "completed by Harvester", func(node *corev1.Node) bool {
			return node.Annotations[maintenance.AnnotationStatus] == maintenance.StatusCompleted
		})
		node := c.AwaitNode(t, v.host, "seen", func(*corev1.Node) bool { return true })
		if _, own := node.Annotations[maintenance.AnnotationNodeRecord]; own || maintenance.Condition(node) != nil {
			t.Errorf("Drydock took part: %v", node.Annotations)
		}
		h.disable(t, v.host)
		// Harvester starts no Manual VM: it only restores the run strategy.
		for _, name := range []string{moves, enable, "always", "rerun"} {
			operator.AwaitRunningOn(t, c, v.namespace, name, v.host, v.other)
		}
	})
}

// Either side is restarted in the middle of what it does.
func TestEitherSideIsRestarted(t *testing.T) {
	c := cluster.For(t)
	m := drydock(t, c)
	forPaces(t, func(t *testing.T, pace time.Duration) {
		_, endHarvester := start(t, c, pace)
		v := create(t, c)
		operator.Request(t, c, v.host)
		c.AwaitNode(t, v.host, "engaged by Drydock", func(node *corev1.Node) bool {
			return node.Annotations[maintenance.AnnotationStatus] == maintenance.StatusDraining
		})
		m.end()
		endHarvester()
		h, _ := start(t, c, pace)
		m.begin()
		operator.AwaitPhase(t, c, v.host, maintenance.PhaseCompleted)
		m.end()
		h.disable(t, v.host)
		m.begin()
		awaitFree(t, c, v.host)
		v.awaitBack(t)
		if served := h.drained(); len(served) > 0 {
			t.Errorf("Harvester served requests for %v", served)
		}
	})
}
