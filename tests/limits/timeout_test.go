package limits

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// A drain that cannot end says so, keeps its clock, and can be left or resumed.
func TestADrainIsGivenUpAtItsLimitAndSaysWhatHeldIt(t *testing.T) {
	const limit = 8 * time.Second
	c, m := drydock(t, "--drain-timeout", limit.String())
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	deaf := operator.Movable(c, ns, "later", pool).Strategy("ShutdownAndRestartAfterDisable").Annotate("sim.drydock.dev/shutdown-seconds", "never")
	operator.Create(t, deaf.Change(func(vm *virtv1.VirtualMachine) { vm.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr(600) }))
	guarded(t, c, ns, "web", host)

	operator.Request(t, c, host)
	started := operator.RecordOf(t, operator.AwaitPhase(t, c, host, maintenance.PhaseDraining)).Started
	c.AwaitVM(t, ns, "later", "stopped", halted)
	// The limit passes while nobody is there. Whoever comes then knows nothing of the node's
	// pods yet, and tells of them all the same.
	m.end(t, c)
	c.Eventually(t, "the limit passes", func(context.Context) error {
		if time.Since(started.Time) < limit {
			return errors.New("not yet")
		}
		return nil
	})
	m.begin(t)
	node := operator.AwaitMessage(t, c, host, "timed out after 8s", ns+"/web", "held by PDB "+ns+"/web", "shutting down, up to 600 s ("+ns+"/later)",
		maintenance.AnnotationStatus)
	condition := maintenance.Condition(node)
	if condition.Status != corev1.ConditionTrue || condition.Reason != string(maintenance.PhaseError) {
		t.Errorf("the condition is %s/%s, want Error/True", condition.Reason, condition.Status)
	}
	if got := operator.RecordOf(t, node).Started; !got.Equal(&started) {
		t.Errorf("the clock began at %s and begins at %s after a restart", started, got)
	}
	if took := condition.LastTransitionTime.Sub(started.Time); took < limit {
		t.Errorf("given up after %s, the limit is %s", took, limit)
	}
	if !node.Spec.Unschedulable || node.Annotations[maintenance.AnnotationStatus] != maintenance.StatusRunning {
		t.Errorf("the node is engaged no more: %v", node.Annotations)
	}
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceError", "timed out", "web")

	// Nothing more is evicted although it could be, and what is under way goes on.
	audit := c.Audit(t, "drydock")
	allow(t, c, ns, "web")
	if vm := operator.GetVM(t, c, ns, "later"); operator.Marker(vm) != host || !halted(vm) {
		t.Errorf("the VM that was being stopped has marker %q", operator.Marker(vm))
	}

	// Left, the VM is due: it comes back as soon as it is off, from itself alone.
	operator.Leave(t, c, host)
	if node := operator.AwaitOut(t, c, host); node.Spec.Unschedulable {
		t.Error("the node has left and is still cordoned")
	}
	for _, request := range audit.Requests(t) {
		if request.Subresource == "eviction" && request.Namespace == ns {
			t.Errorf("after the limit: %s", request)
		}
	}
	if vm := operator.GetVM(t, c, ns, "later"); operator.Marker(vm) != host {
		t.Errorf("a VM that still has to be started has marker %q", operator.Marker(vm))
	}
	operator.AnnotateVMI(t, c, ns, "later", map[string]any{"sim.drydock.dev/shutdown-seconds": "0"})
	operator.AwaitForgotten(t, c, ns, "later")
	operator.AwaitRunningOn(t, c, ns, "later", pool.Hosts...)
}

func TestADrainGivenUpIsResumedWithANewClock(t *testing.T) {
	c, _ := drydock(t, "--drain-timeout", "12s")
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	guarded(t, c, ns, "web", host)
	operator.Request(t, c, host)
	first := operator.RecordOf(t, operator.AwaitMessage(t, c, host, "timed out after 12s"))

	// What held it is gone; that alone resumes nothing.
	allow(t, c, ns, "web")
	operator.AwaitMessage(t, c, host, "timed out after 12s", "1 pod left")
	operator.Request(t, c, host)
	second := operator.RecordOf(t, operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted))
	if second.ID != first.ID || !first.Started.Before(&second.Started) {
		t.Errorf("the record was %+v and is %+v: it should be the same maintenance with a later start", first, second)
	}
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
}

func ptr(n int64) *int64 { return &n }

// guarded makes a pod on a host whose budget never lets it go.
func guarded(t *testing.T, c *cluster.Cluster, namespace, name, host string) {
	t.Helper()
	labels, none := map[string]string{"app": name}, intstr.FromInt32(1)
	_, err := c.Kube.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "none"}}, NodeSelector: map[string]string{corev1.LabelHostname: host},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Kube.PolicyV1().PodDisruptionBudgets(namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &none, Selector: &metav1.LabelSelector{MatchLabels: labels}},
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

// allow lets the budget's pod go.
func allow(t *testing.T, c *cluster.Cluster, namespace, name string) {
	t.Helper()
	operator.Patch(t, map[string]any{"spec": map[string]any{"minAvailable": 0}}, func(ctx context.Context, raw []byte) error {
		_, err := c.Kube.PolicyV1().PodDisruptionBudgets(namespace).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
	// That it allows a disruption may not be seen: the manager uses it at once.
	c.Eventually(t, "the budget's change is in force", func(ctx context.Context) error {
		budget, err := c.Kube.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && budget.Status.ObservedGeneration < budget.Generation {
			err = errors.New("it is not looked at yet")
		}
		return err
	})
}
