package admission

import (
	"context"
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
func guest(t *testing.T, c *cluster.Cluster, namespace string, pool *cluster.Pool) *virtv1.VirtualMachine {
	t.Helper()
	if err := patchNode(t.Context(), c, pool.Host(1), cordon); err != nil {
		t.Fatal(err)
	}
	vm := c.VM(namespace, "a").PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate).Strategy("ShutdownAndRestartAfterDisable").Change(func(vm *virtv1.VirtualMachine) {
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
	before := guest(t, c, ns, pool)
	maintained(t, c, pool.Host(0))
	operator.Leave(t, c, pool.Host(0))
	operator.AwaitRunningOn(t, c, ns, "a", pool.Host(0))
	withoutTrace(t, c, pool.Host(0), before)
	preferred := launcherOf(t, c, ns, "a").Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(preferred) != 2 || preferred[0].Weight != 30 || preferred[1].Weight != 100 {
		t.Errorf("the pod prefers %+v: what it had must be kept", preferred)
	}
}

func TestAVMComesBackElsewhereWhenItsNodeTakesNothing(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	before := guest(t, c, ns, pool)
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
	guest(t, c, ns, pool)
	maintained(t, c, pool.Host(0))
	client := c.KubeVirt.KubevirtV1().VirtualMachines(ns)
	if vm := operator.GetVM(t, c, ns, "a"); operator.Marker(vm) != pool.Host(0) {
		t.Fatalf("the stopped VM has marker %q", operator.Marker(vm))
	}
	started, err := client.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"runStrategy":"Always"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	if _, record := started.Annotations[maintenance.AnnotationVMRecord]; record || operator.HasMarker(started) {
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
