package limits

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// What happens on nodes, VMs, VMIs and pods that are in no maintenance costs the API
// server nothing: all of it is in caches.
func TestAnIdleManagerAsksNothing(t *testing.T) {
	c, _ := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	operator.Create(t, operator.Movable(c, ns, "a", pool), operator.Movable(c, ns, "b", pool))
	awaitQuiet(t, c, ns)
	mark := c.Audit(t, "drydock")

	for n := range 20 {
		value := fmt.Sprint(n)
		operator.Annotate(t, c, pool.Host(0), map[string]string{"example.com/beat": value})
		operator.AnnotateVMI(t, c, ns, "a", map[string]string{"example.com/beat": value})
		operator.PatchVM(t, c, ns, "a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.com/beat": value}}})
	}
	awaitQuiet(t, c, ns)
	writes := map[string]int{}
	for _, r := range mark.Requests(t) {
		switch {
		case r.Resource == "leases" || r.Verb == "watch":
		case r.Verb == "patch" && r.Namespace == ns && r.Name != "a":
			writes[r.Resource]++ // awaitQuiet's own question
		default:
			t.Errorf("the idle manager sent: %s %s", r, r.URI)
		}
	}
	if len(writes) == 0 {
		t.Error("the manager has not even answered the question whether it has seen everything")
	}
}

// awaitQuiet returns when the manager has seen what happened to VMs and VMIs before: a
// label that is set now has reached a pod, and watches keep the order of events.
func awaitQuiet(t *testing.T, c *cluster.Cluster, namespace string) {
	t.Helper()
	vm := operator.GetVM(t, c, namespace, "b")
	strategy := "Shutdown"
	if vm.Labels[maintenance.LabelStrategy] == strategy {
		strategy = "Migrate"
	}
	operator.Relabel(t, c, namespace, "b", strategy)
	c.Eventually(t, "the label has reached the pod", func(ctx context.Context) error {
		pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: maintenance.LabelStrategy + "=" + strategy})
		if err == nil && len(pods.Items) != 1 {
			err = errors.New("not yet")
		}
		return err
	})
}

// One drain costs a few requests for each VM and pod, however long it takes, and a
// handful of lists: those of the node's own pods, and of the nodes at admission.
func TestADrainStaysWithinItsRequests(t *testing.T) {
	c, _ := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	const movers, restarted, plain = 4, 2, 3
	var vms []*cluster.VM
	for n := range movers {
		vms = append(vms, operator.Movable(c, ns, fmt.Sprintf("moves-%d", n), pool).Annotate("sim.drydock.dev/migration-seconds", "1"))
	}
	for n := range restarted {
		vms = append(vms, operator.Movable(c, ns, fmt.Sprintf("off-%d", n), pool).Strategy("ShutdownAndRestartAfterDisable"))
	}
	operator.Create(t, vms...)
	for n := range plain {
		name := fmt.Sprintf("plain-%d", n)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: host, Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
		if _, err := c.Kube.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	mark := c.Audit(t, "drydock")

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	for n := range restarted {
		operator.AwaitForgotten(t, c, ns, fmt.Sprintf("off-%d", n))
	}
	total, lists, all := 0, 0, mark.Requests(t)
	for _, r := range all {
		if r.Resource == "leases" && r.Name == "drydock" || r.Verb == "watch" {
			continue
		}
		total++
		if r.Verb == "list" {
			lists++
		}
	}
	t.Logf("%d requests, %d of them lists, for %d VMs that moved, %d that were restarted and %d pods", total, lists, movers, restarted, plain)
	if most := 3*movers + 6*restarted + 2*plain + 30; total > most {
		t.Errorf("%d requests, want at most %d:\n%v", total, most, all)
	}
	if lists > 4 {
		t.Errorf("%d lists, want no more than those of the pods of the node and of the nodes at admission:\n%v", lists, all)
	}
}
