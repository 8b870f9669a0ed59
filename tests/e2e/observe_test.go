package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// launcherOf is the name of the one launcher pod of a VM that has not ended.
func launcherOf(t *testing.T, c *cluster.Cluster, namespace, vm string) string {
	t.Helper()
	pods, err := c.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "kubevirt.io=virt-launcher"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range pods.Items {
		pod := &pods.Items[n]
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.Name == vm && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			return pod.Name
		}
	}
	t.Fatalf("VM %s/%s has no launcher", namespace, vm)
	return ""
}

// evictionsOf are the manager's requests that would remove a pod: evictions and plain
// deletions.
func evictionsOf(requests []cluster.Request, namespace, pod string) []cluster.Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r cluster.Request) bool {
		removes := r.Resource == "pods" && (r.Subresource == "eviction" || strings.HasPrefix(r.Verb, "delete"))
		return !removes || r.Namespace != namespace || r.Name != pod
	})
}

// callsOf are the manager's requests on a kind in a namespace, with a verb or, for
// those that KubeVirt has as subresources, its name.
func callsOf(requests []cluster.Request, namespace, resource, verb string) []cluster.Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r cluster.Request) bool {
		return r.Namespace != namespace || r.Resource != resource || (r.Verb != verb && r.Subresource != verb)
	})
}

// migrate begins a migration as a user would, and returns once it moves memory.
func migrate(t *testing.T, c *cluster.Cluster, namespace, vmi string) string {
	t.Helper()
	client := c.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(namespace)
	migration, err := client.Create(t.Context(), &virtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "by-hand-"},
		Spec:       virtv1.VirtualMachineInstanceMigrationSpec{VMIName: vmi},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "the migration runs", func(ctx context.Context) error {
		m, err := client.Get(ctx, migration.Name, metav1.GetOptions{})
		if err == nil && m.Status.Phase != virtv1.MigrationRunning {
			err = fmt.Errorf("its phase is %q", m.Status.Phase)
		}
		return err
	})
	return migration.Name
}

// awaitRefused waits until a request was refused, with all of the texts as the reason,
// and checks that nothing was changed.
func awaitRefused(t *testing.T, c *cluster.Cluster, node string, texts ...string) *corev1.Node {
	t.Helper()
	refused := operator.AwaitMessage(t, c, node, append([]string{"refused"}, texts...)...)
	condition := maintenance.Condition(refused)
	if condition.Status != corev1.ConditionFalse || condition.Reason != string(maintenance.PhaseError) {
		t.Errorf("the condition of the refused request is %s/%s, want Error/False", condition.Reason, condition.Status)
	}
	if refused.Spec.Unschedulable {
		t.Error("the request was refused and the node is cordoned")
	}
	for key := range refused.Annotations {
		if key == maintenance.AnnotationRequested || key == maintenance.AnnotationForced || key == maintenance.AnnotationStatus || key == maintenance.AnnotationNodeRecord {
			t.Errorf("the request was refused and the node has the annotation %s", key)
		}
	}
	operator.AwaitEvent(t, c, "Node", "", node, "MaintenanceRefused", condition.Message)
	return refused
}

// awaitPodGone waits until there is no pod of that name and UID.
func awaitPodGone(t *testing.T, c *cluster.Cluster, pod *corev1.Pod) {
	t.Helper()
	c.Eventually(t, "the pod "+pod.Name+" is gone", func(ctx context.Context) error {
		found, err := c.Kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil && found.UID == pod.UID:
			return fmt.Errorf("its phase is %s", found.Status.Phase)
		}
		return err
	})
}

// eventually waits for something that is not one object.
func eventually(t *testing.T, c *cluster.Cluster, what string, condition func() bool) {
	t.Helper()
	c.Eventually(t, what, func(context.Context) error {
		if condition() {
			return nil
		}
		return errors.New("not yet")
	})
}

// repel puts a taint on a node that no VM of these tests tolerates.
func repel(t *testing.T, c *cluster.Cluster, node string, effect corev1.TaintEffect) {
	t.Helper()
	taintAs(t, c, node, "test.drydock.dev/closed", effect)
}

func taintAs(t *testing.T, c *cluster.Cluster, node, key string, effect corev1.TaintEffect) {
	t.Helper()
	taints := []corev1.Taint{{Key: key, Value: "true", Effect: effect}}
	operator.Patch(t, map[string]any{"spec": map[string]any{"taints": taints}}, func(ctx context.Context, raw []byte) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, raw, metav1.PatchOptions{})
		return err
	})
}
