package e2e

import (
	"context"
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// disable takes away whatever asks for maintenance or shows it.
func disable(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	operator.Annotate(t, c, node, map[string]string{maintenance.AnnotationRequested: "", maintenance.AnnotationForced: "", maintenance.AnnotationStatus: ""})
}

// guarded makes a pod on a host whose budget never lets it go.
func guarded(t *testing.T, c *cluster.Cluster, namespace, name, host string) {
	t.Helper()
	labels, one, most := map[string]string{"app": name}, int32(1), intstr.FromInt32(0)
	container := corev1.Container{Name: "main", Image: "none"}
	_, err := c.Kube.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{container}, NodeSelector: map[string]string{corev1.LabelHostname: host}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Kube.PolicyV1().PodDisruptionBudgets(namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "the pod is ready and its budget knows it", func(ctx context.Context) error {
		budget, err := c.Kube.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && budget.Status.CurrentHealthy == 0 {
			err = errors.New("it counts no healthy pod")
		}
		return err
	})
}

// Each way of leaving ends in the same state: the node is schedulable and shows
// nothing, whatever was stopped runs, nothing is asked of the node's pods any more.
func TestLeavingWorksInEveryPhase(t *testing.T) {
	t.Parallel()
	for name, phase := range map[string]struct {
		// reach brings the node there; VMs are on it already.
		reach func(t *testing.T, c *cluster.Cluster, ns, host string)
		never bool // the node is never cordoned
	}{
		"before the request was seen": {
			reach: func(t *testing.T, c *cluster.Cluster, _, host string) { operator.Request(t, c, host) },
		},
		"Validating": {
			reach: func(t *testing.T, c *cluster.Cluster, _, host string) {
				operator.HoldBefore(t, c, host, maintenance.PhaseDraining)
				operator.Request(t, c, host)
				operator.AwaitPhase(t, c, host, maintenance.PhaseValidating)
			},
			never: true,
		},
		"Draining": {
			reach: func(t *testing.T, c *cluster.Cluster, ns, host string) {
				guarded(t, c, ns, "web", host)
				operator.Request(t, c, host)
				operator.AwaitMessage(t, c, host, "held by PDB "+ns+"/web")
				operator.AwaitPhase(t, c, host, maintenance.PhaseDraining)
			},
		},
		// What a forced drain that never ends leaves behind.
		"forced, and Evacuating": {
			reach: func(t *testing.T, c *cluster.Cluster, ns, host string) {
				operator.AnnotateVMI(t, c, ns, "moves", map[string]string{"sim.drydock.dev/migration-seconds": "never"})
				operator.Relabel(t, c, ns, "later", "Shutdown") // force would keep it off
				operator.Relabel(t, c, ns, "soon", "Shutdown")
				operator.Force(t, c, host)
				operator.AwaitPhase(t, c, host, maintenance.PhaseEvacuating)
			},
		},
		"Error, after an uncordon": {
			reach: func(t *testing.T, c *cluster.Cluster, ns, host string) {
				guarded(t, c, ns, "web", host)
				operator.Request(t, c, host)
				operator.AwaitMessage(t, c, host, "held by PDB "+ns+"/web")
				uncordon(t, c, host)
				operator.AwaitPhase(t, c, host, maintenance.PhaseError)
			},
		},
		"Completed": {
			reach: func(t *testing.T, c *cluster.Cluster, _, host string) {
				operator.Request(t, c, host)
				operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := drydock(t)
			ns, pool := c.Namespace(t), c.Pool(t, 2)
			host := pool.Host(0)
			operator.Create(t, operator.Movable(c, ns, "moves", pool),
				operator.Movable(c, ns, "soon", pool).Strategy("ShutdownAndRestartAfterEnable"),
				operator.Movable(c, ns, "later", pool).Strategy("ShutdownAndRestartAfterDisable"))
			history := c.RecordNode(t, host)
			phase.reach(t, c, ns, host)

			disable(t, c, host)
			disable(t, c, host)
			operator.AwaitOut(t, c, host)
			audit := c.Audit(t, "drydock")
			disable(t, c, host)
			awaitPass(t, c, host)

			node := getNode(t, c, host)
			if node.Spec.Unschedulable {
				t.Error("the node is still cordoned")
			}
			versions := history.To(t, node)
			if got := cordons(versions); (phase.never && len(got) != 1) || len(got) > 3 {
				t.Errorf("the node was cordoned and uncordoned: %v", got)
			}
			if got := evictions(t, audit, ns); len(got) > 0 {
				t.Errorf("evictions after leaving: %v", got)
			}
			for _, vm := range []string{"moves", "soon", "later"} {
				if strategy := operator.GetVM(t, c, ns, vm).Labels[maintenance.LabelStrategy]; strategy != "Shutdown" {
					operator.AwaitRunningOn(t, c, ns, vm, pool.Hosts...)
				}
				operator.AwaitForgotten(t, c, ns, vm)
			}
		})
	}
}

func uncordon(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	setUnschedulable(t, c, node, nil)
}

func setUnschedulable(t *testing.T, c *cluster.Cluster, node string, value any) {
	t.Helper()
	operator.Patch(t, map[string]any{"spec": map[string]any{"unschedulable": value}}, func(ctx context.Context, raw []byte) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
}

// addTaints adds taints to those that a node has.
func addTaints(t *testing.T, c *cluster.Cluster, node string, taints ...corev1.Taint) {
	t.Helper()
	operator.Patch(t, map[string]any{"spec": map[string]any{"taints": append(getNode(t, c, node).Spec.Taints, taints...)}}, func(ctx context.Context, raw []byte) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
}

// big makes a VM too big for any other host of its pool, which no pre-check can see:
// its migration finds no target.
func big(t *testing.T, c *cluster.Cluster, namespace, name string, pool *cluster.Pool) *cluster.VM {
	t.Helper()
	for _, other := range pool.Hosts[1:] {
		operator.Annotate(t, c, other, map[string]string{"sim.drydock.dev/memory": "2Gi"})
		c.AwaitNode(t, other, "is small", func(n *corev1.Node) bool { return n.Status.Allocatable.Memory().Value() <= 2<<30 })
	}
	return operator.Movable(c, namespace, name, pool).Change(func(vm *virtv1.VirtualMachine) {
		vm.Spec.Template.Spec.Domain.Resources.Requests[corev1.ResourceMemory] = resource.MustParse("4Gi")
	})
}

// awaitStuck waits until KubeVirt looks for a place for a VM and there is none.
func awaitStuck(t *testing.T, c *cluster.Cluster, namespace, name, host string) {
	t.Helper()
	c.Eventually(t, "an evacuation without a target", func(context.Context) error {
		vmi := getVMI(t, c, namespace, name)
		unfinished := slices.DeleteFunc(migrationsOf(t, c, namespace, name), func(m virtv1.VirtualMachineInstanceMigration) bool { return m.IsFinal() })
		if vmi.Status.EvacuationNodeName != host || len(unfinished) == 0 {
			return errors.New("it is not marked, or has no migration")
		}
		return nil
	})
	operator.AwaitMessage(t, c, host, namespace+"/"+name+" has no target", "Insufficient memory")
}

// awaitWithdrawn waits until nothing asks KubeVirt to move the VM any more.
func awaitWithdrawn(t *testing.T, c *cluster.Cluster, namespace, name string) {
	t.Helper()
	c.AwaitVMI(t, namespace, name, "its evacuation is withdrawn", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.Status.EvacuationNodeName == "" })
	c.Eventually(t, "it has no unfinished migration", func(context.Context) error {
		for _, m := range migrationsOf(t, c, namespace, name) {
			if !m.IsFinal() {
				return errors.New(m.Name + " is " + string(m.Status.Phase))
			}
		}
		return nil
	})
}
