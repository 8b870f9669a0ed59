package process

import (
	"context"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/harvester"
	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
)

// harvesterRuns makes the cluster look as if Harvester's own controllers were running.
func harvesterRuns(t *testing.T, c *cluster.Cluster) (end func()) {
	t.Helper()
	labels := map[string]string{"app.kubernetes.io/name": "harvester"}
	deployments := c.Kube.AppsV1().Deployments(harvester.DeploymentNamespace)
	if _, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: harvester.DeploymentName},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "harvester", Image: "harvester"}}}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	end = func() {
		_ = deployments.Delete(context.WithoutCancel(t.Context()), harvester.DeploymentName, metav1.DeleteOptions{})
	}
	t.Cleanup(end)
	return end
}

// While Harvester's own controllers run, nothing is done and it is said why, before the
// manager leads and after; once they are gone, what was asked for is done.
func TestItStaysIdleBesideHarvester(t *testing.T) {
	c := cluster.For(t)
	kubeconfig := c.Kubeconfig(t, "drydock")
	gone := harvesterRuns(t, c)
	m := manager.Start(t, kubeconfig)
	const idle, working = "idle: Harvester's own controllers run here", "no longer idle"
	says := func(n int, text string) {
		t.Helper()
		if _, err := m.AwaitTimes(n, func(l manager.Line) bool { return strings.HasPrefix(l.Message, text) }); err != nil {
			t.Fatal(err)
		}
	}
	says(1, idle)
	if code, body := m.Get(t, "health", "/readyz"); code != http.StatusOK || !strings.Contains(body, "--harvester=takeover") {
		t.Errorf("/readyz answers %d %q", code, body)
	}
	if _, body := m.Get(t, "metrics", "/metrics"); !strings.Contains(body, "drydock_idle 1") {
		t.Error("the metric says that it is not idle")
	}
	operator.AwaitEvent(t, c, "Lease", "harvester-system", "drydock", "Idle", "--harvester=takeover")

	ns, pool := c.Namespace(t), c.Pool(t, 2)
	history := c.RecordNode(t, pool.Host(0))
	operator.Request(t, c, pool.Host(0))
	// Far more happens meanwhile than a manager that acts would need.
	operator.Create(t, operator.Movable(c, ns, "meanwhile", pool))
	for _, node := range history.Versions() {
		if maintenance.Condition(node) != nil || node.Spec.Unschedulable {
			t.Fatalf("it acted on node %s while idle: %v", node.Name, node.Status.Conditions)
		}
	}
	gone()
	says(1, working)
	operator.AwaitPhase(t, c, pool.Host(0), maintenance.PhaseCompleted)
	if code, body := m.Get(t, "health", "/readyz"); code != http.StatusOK || strings.Contains(body, "idle") {
		t.Errorf("/readyz answers %d %q", code, body)
	}
	operator.Leave(t, c, pool.Host(0))
	operator.AwaitOut(t, c, pool.Host(0))

	// Harvester returns in the middle of a drain. Drydock leaves everything as it is, and
	// goes on once it is alone again.
	operator.AnnotateVMI(t, c, ns, "meanwhile", map[string]string{"sim.drydock.dev/migration-seconds": "never"})
	host := operator.AwaitRunningOn(t, c, ns, "meanwhile", pool.Hosts...).Status.NodeName
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseEvacuating)
	gone = harvesterRuns(t, c)
	says(2+1, idle)
	operator.AnnotateVMI(t, c, ns, "meanwhile", map[string]string{"sim.drydock.dev/migration-seconds": "0.1"})
	c.AwaitVMI(t, ns, "meanwhile", "it has moved", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.Status.NodeName != host })
	operator.Create(t, operator.Movable(c, ns, "later", pool).On(otherOf(pool, host)))
	if node := operator.AwaitPhase(t, c, host, maintenance.PhaseEvacuating); !maintenance.Engaged(node) || !node.Spec.Unschedulable {
		t.Errorf("the drain was not left as it was: %v", node.Annotations)
	}
	gone()
	says(2, working)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
}

func otherOf(pool *cluster.Pool, host string) string {
	if pool.Host(0) == host {
		return pool.Host(1)
	}
	return pool.Host(0)
}
