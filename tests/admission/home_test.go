package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

const virtHalted = virtv1.RunStrategyHalted

// guest is a VM that runs on the first host of a pool of two, although it likes the
// other one better.
func guest(t *testing.T, c *cluster.Cluster, namespace string, pool *cluster.Pool, strategy maintenance.Strategy) *virtv1.VirtualMachine {
	t.Helper()
	if err := patchNode(t.Context(), c, pool.Host(1), cordon); err != nil {
		t.Fatal(err)
	}
	vm := c.VM(namespace, "a").PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate).Strategy(string(strategy)).Change(func(vm *virtv1.VirtualMachine) {
		vm.Spec.Template.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{
			Weight: 30, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{pool.Host(1)}}}},
		}}
	}).Create(t)
	operator.AwaitRunningOn(t, c, namespace, "a", pool.Host(0))
	if err := patchNode(t.Context(), c, pool.Host(1), uncordon); err != nil {
		t.Fatal(err)
	}
	return vm
}

func maintained(t *testing.T, c *cluster.Cluster, host string) {
	t.Helper()
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
}

func TestAVMComesBackToItsOwnNode(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	before := guest(t, c, ns, pool, maintenance.StrategyRestartAfterDisable)
	maintained(t, c, pool.Host(0))
	operator.Leave(t, c, pool.Host(0))
	operator.AwaitRunningOn(t, c, ns, "a", pool.Host(0))
	withoutTrace(t, c, pool.Host(0), before)
	// What the pod had is kept.
	if got := preferences(t, c, ns, "a"); !slices.Equal(got, []int32{30, 100}) {
		t.Errorf("the pod prefers with the weights %v", got)
	}
}

// preferences are the weights of what a VM's launcher prefers.
func preferences(t *testing.T, c *cluster.Cluster, namespace, name string) []int32 {
	t.Helper()
	var weights []int32
	for _, term := range launcherOf(t, c, namespace, name).Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		weights = append(weights, term.Weight)
	}
	return weights
}

// A VM that may run elsewhere meanwhile comes back when it could not, and only then. That
// it waits is told in each maintenance.
func TestAVMThatNoOtherNodeTookComesBackToItsOwnNode(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	guest(t, c, ns, pool, maintenance.StrategyRestartAfterEnable)
	if err := patchNode(t.Context(), c, other, cordon); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		maintained(t, c, host)
		operator.AwaitMessage(t, c, host, ns+"/a (no other node can host it; it is started on leaving)")
		c.Eventually(t, "the wait is told once more", func(context.Context) error {
			told := int32(0)
			for _, event := range c.Events(t, "VirtualMachine", ns, "a") {
				if event.Reason == "MaintenanceStartWaiting" && strings.Contains(event.Message, "no other node can host it") {
					told += max(1, event.Count)
				}
			}
			if told != int32(n+1) {
				return fmt.Errorf("it was told %d times in %d maintenances", told, n+1)
			}
			return nil
		})
		if n == 0 {
			operator.Leave(t, c, host)
			operator.AwaitOut(t, c, host)
			operator.AwaitRunningOn(t, c, ns, "a", host)
			operator.AwaitForgotten(t, c, ns, "a")
			if got := preferences(t, c, ns, "a"); !slices.Equal(got, []int32{30, 100}) {
				t.Errorf("started on leaving, the pod prefers with the weights %v", got)
			}
		}
	}
	if err := patchNode(t.Context(), c, other, uncordon); err != nil {
		t.Fatal(err)
	}
	operator.AwaitRunningOn(t, c, ns, "a", other)
	if got := preferences(t, c, ns, "a"); !slices.Equal(got, []int32{30}) {
		t.Errorf("started elsewhere, the pod prefers with the weights %v", got)
	}
}

func TestAVMComesBackElsewhereWhenItsNodeTakesNothing(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	before := guest(t, c, ns, pool, maintenance.StrategyRestartAfterDisable)
	maintained(t, c, pool.Host(0))
	if err := patchNode(t.Context(), c, pool.Host(0), `{"spec":{"taints":[{"key":"test.drydock.dev/closed","effect":"NoSchedule"}]}}`); err != nil {
		t.Fatal(err)
	}
	operator.Leave(t, c, pool.Host(0))
	operator.AwaitRunningOn(t, c, ns, "a", pool.Host(1))
	withoutTrace(t, c, pool.Host(0), before)
}

// withoutTrace checks that the VM's spec, and its VMI's affinity, are what they were
// before the maintenance of a host.
func withoutTrace(t *testing.T, c *cluster.Cluster, host string, before *virtv1.VirtualMachine) {
	t.Helper()
	operator.AwaitOut(t, c, host)
	after := operator.AwaitForgotten(t, c, before.Namespace, before.Name)
	if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		t.Errorf("the VM's spec was\n%+v\nand is\n%+v", before.Spec, after.Spec)
	}
	vmi, err := c.KubeVirt.KubevirtV1().VirtualMachineInstances(before.Namespace).Get(t.Context(), before.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(before.Spec.Template.Spec.Affinity, vmi.Spec.Affinity) {
		t.Errorf("the VMI's affinity is %+v", vmi.Spec.Affinity)
	}
}

// The marker is gone in the very write that starts the VM, before any controller looks,
// and a VM that its owner has stopped again stays off.
func TestStartedAndStoppedInMaintenanceAVMStaysOff(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	guest(t, c, ns, pool, maintenance.StrategyRestartAfterDisable)
	maintained(t, c, pool.Host(0))
	client := c.KubeVirt.KubevirtV1().VirtualMachines(ns)
	if vm := operator.GetVM(t, c, ns, "a"); operator.Marker(vm) != pool.Host(0) {
		t.Fatalf("the stopped VM has marker %q", operator.Marker(vm))
	}
	started, err := client.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"runStrategy":"Always"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	if operator.HasMarker(started) {
		t.Errorf("started, it would be stored with %v", started.Annotations)
	}
	history := c.RecordVM(t, ns, "a")
	if err := client.Start(t.Context(), "a", &virtv1.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "the VM is stopped again", func(ctx context.Context) error {
		return client.Stop(ctx, "a", &virtv1.StopOptions{})
	})
	c.AwaitVM(t, ns, "a", "halted again", func(vm *virtv1.VirtualMachine) bool { return *vm.Spec.RunStrategy == virtHalted })
	operator.Leave(t, c, pool.Host(0))
	operator.AwaitOut(t, c, pool.Host(0))
	for _, vm := range history.Versions() {
		if *vm.Spec.RunStrategy != virtHalted && operator.HasMarker(vm) {
			t.Errorf("version %s runs with a marker", vm.ResourceVersion)
		}
	}
	c.AwaitNoVMI(t, ns, "a")
	if vm := operator.GetVM(t, c, ns, "a"); *vm.Spec.RunStrategy != virtHalted || operator.HasMarker(vm) {
		t.Errorf("after leaving, runStrategy is %s and the marker %q", *vm.Spec.RunStrategy, operator.Marker(vm))
	}
}
