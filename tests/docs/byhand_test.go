package docs

import (
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
)

const chartReadme = "charts/drydock/README.md"

// What the chart's README has for a node that was in maintenance when Drydock went: no
// manager is there to help, and nothing is left that a later one would find.
func TestANodeIsBroughtBackByHandAfterAnUninstall(t *testing.T) {
	c := cluster.For(t)
	var byHand []block
	for _, b := range read(t, chartReadme).blocks {
		if b.section == "Uninstall" && b.info == beyond {
			byHand = append(byHand, b)
		}
	}
	if len(byHand) != 3 {
		t.Fatalf("%s: %d blocks tell how to uninstall, not 3: helm's, the node's and the VM's", chartReadme, len(byHand))
	}
	m := manager.Start(t, c.Kubeconfig(t, "drydock"))
	populate(t, c, true)
	operator.Relabel(t, c, namespace, "vm1", "ShutdownAndRestartAfterDisable")
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	m.Kill()

	p := page{name: chartReadme}
	t.Log(run(t, t.TempDir(), environment(t, "KUBECONFIG="+filepath.Join(c.StateDir, "kubeconfig")), p.script(byHand[1:])))
	node, err := c.Kube.CoreV1().Nodes().Get(t.Context(), host, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if maintenance.Condition(node) != nil || maintenance.Engaged(node) || node.Spec.Unschedulable {
		t.Errorf("%s is still in maintenance: %v %v", host, node.Annotations, node.Status.Conditions)
	}
	for key := range node.Annotations {
		if strings.HasPrefix(key, "drydock.dev/") || strings.HasPrefix(key, maintenance.LabelPrefix) {
			t.Errorf("%s keeps its annotation %s", host, key)
		}
	}
	operator.AwaitRunningOn(t, c, namespace, "vm1", host, "cp1", "cp2", "cp3")
	operator.AwaitForgotten(t, c, namespace, "vm1")
}
