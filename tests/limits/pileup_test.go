package limits

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
)

// held makes pods that a budget keeps on a host for ever.
func held(t *testing.T, c *cluster.Cluster, namespace, host string, count int) {
	t.Helper()
	client, all, label := c.Kube.CoreV1().Pods(namespace), intstr.FromString("100%"), map[string]string{"held": "true"}
	for n := range count {
		_, err := client.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("held-%02d", n), Labels: label},
			Spec:       corev1.PodSpec{NodeName: host, Containers: []corev1.Container{{Name: "main", Image: "main"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.Kube.PolicyV1().PodDisruptionBudgets(namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "never"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: label}, MinAvailable: &all},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "all of them run, and the budget counts them", func(ctx context.Context) error {
		budget, err := c.Kube.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, "never", metav1.GetOptions{})
		if err == nil && int(budget.Status.CurrentHealthy) != count {
			err = fmt.Errorf("%d of %d", budget.Status.CurrentHealthy, count)
		}
		return err
	})
}

// goroutines reads the manager's own count.
func goroutines(t *testing.T, m *manager.Manager) int {
	t.Helper()
	_, page := m.Get(t, "metrics", "/metrics")
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the manager does not tell how many goroutines it has")
	return 0
}

// Drains that are given up and resumed again and again leave nothing behind: neither
// goroutines, nor evictions that are repeated ever faster.
func TestDrainsThatAreResumedAgainAndAgainLeaveNothingBehind(t *testing.T) {
	const attempts, pods = 8, 30
	c, m := drydock(t, "--drain-timeout", "1100ms")
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	held(t, c, ns, host, pods)
	before := goroutines(t, m.Manager)
	mark := c.Audit(t, "drydock")

	for range attempts {
		operator.Request(t, c, host)
		c.AwaitNode(t, host, "given up", func(node *corev1.Node) bool {
			return maintenance.PhaseOf(node) == maintenance.PhaseError && !maintenance.Plain.Request(node).Wanted && operator.Holds(operator.Message(node), []string{"timed out"})
		})
	}
	operator.AwaitMessage(t, c, host, "30 pods left", "held by PDB "+ns+"/never", "and 25 more")
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	sent := 0
	for _, r := range mark.Requests(t) {
		if r.Namespace == ns && r.Resource == "pods" && r.Verb != "watch" && r.Verb != "list" {
			sent++
		}
	}
	if sent > pods {
		t.Errorf("%d requests were sent in %d attempts for %d pods whose budget never allows an eviction", sent, attempts, pods)
	}
	c.Eventually(t, "as many goroutines as before", func(context.Context) error {
		if after := goroutines(t, m.Manager); after > before+10 {
			return fmt.Errorf("%d before, %d after", before, after)
		}
		return nil
	})
	list, err := c.Kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "held"})
	if err != nil || len(list.Items) != pods {
		t.Errorf("%d pods are left (%v), want all of the %d", len(list.Items), err, pods)
	}
}

// A VM that an external controller should have moved is named at the limit, with whom it
// waits for; what is under way is left as it is.
func TestAtTheLimitTheMissingExternalControllerIsNamed(t *testing.T) {
	c, _ := drydock(t, "--drain-timeout", "10s")
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t,
		operator.Movable(c, ns, "external", pool).EvictionStrategy(virtv1.EvictionStrategyExternal),
		operator.Movable(c, ns, "slow", pool).Annotate("sim.drydock.dev/migration-seconds", "never"))

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "timed out after 10s", "2 of 2 VMs left", ns+"/external is waiting for the external controller")
	marked := func(name string) string {
		vmi, err := c.KubeVirt.KubevirtV1().VirtualMachineInstances(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return vmi.Status.EvacuationNodeName
	}
	for _, name := range []string{"external", "slow"} {
		if got := marked(name); got != host {
			t.Errorf("what is under way was not left as it is: %s is marked for %q", name, got)
		}
	}
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	c.Eventually(t, "nothing is marked any more", func(context.Context) error {
		if marked("external") != "" || marked("slow") != "" {
			return errors.New("not yet")
		}
		return nil
	})
}
