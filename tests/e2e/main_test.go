// Package e2e holds whole stories: the real manager, as its user starts it, against a
// real control plane with simulated hosts. Tests run in parallel on one cluster, each
// with hosts of its own, so everything is awaited and nothing is slept for.
package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

func TestMain(m *testing.M) {
	// Tests wait far more than they compute, so many run side by side whatever the
	// number of cores; the command line still overrides it.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	code := cluster.Main(m)
	manager.Remove()
	if shared.kubeconfig != "" {
		_ = os.Remove(shared.kubeconfig)
	}
	os.Exit(code)
}

// shared is the manager that the tests of this package share. None of them kills it:
// what it had not told yet would be missed by another.
var shared struct {
	mu         sync.Mutex
	manager    *manager.Manager
	kubeconfig string
}

// drydock returns the cluster with the manager running on it.
func drydock(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.For(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.manager == nil {
		launch(t, c)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the manager's log:\n%s", tail(shared.manager.Log(), 200))
		}
	})
	return c
}

func launch(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if shared.kubeconfig == "" {
		// The file must outlive the test that happens to be the first.
		content, err := os.ReadFile(c.Kubeconfig(t, "drydock"))
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.CreateTemp("", "drydock-*.kubeconfig")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		shared.kubeconfig = file.Name()
	}
	m, err := manager.Launch(shared.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.AwaitLeading(); err != nil {
		t.Fatal(err)
	}
	shared.manager = m
}

func tail(log string, lines int) string {
	all := strings.Split(log, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// annotate sets annotations of a node; an empty value removes one.
func annotate(t *testing.T, c *cluster.Cluster, node string, annotations map[string]string) {
	t.Helper()
	changes := map[string]any{}
	for key, value := range annotations {
		changes[key] = nil
		if value != "" {
			changes[key] = value
		}
	}
	patch(t, map[string]any{"metadata": map[string]any{"annotations": changes}}, func(ctx context.Context, raw []byte) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
}

func patch(t *testing.T, body map[string]any, send func(context.Context, []byte) error) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if err := send(t.Context(), raw); err != nil {
		t.Fatal(err)
	}
}

// patchVM merges a change into a VM, as its owner would with kubectl.
func patchVM(t *testing.T, c *cluster.Cluster, namespace, name string, body map[string]any) {
	t.Helper()
	patch(t, body, func(ctx context.Context, raw []byte) error {
		_, err := c.KubeVirt.KubevirtV1().VirtualMachines(namespace).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
}

// relabel sets a VM's strategy; "" removes the label.
func relabel(t *testing.T, c *cluster.Cluster, namespace, name, strategy string) {
	t.Helper()
	var value any
	if strategy != "" {
		value = strategy
	}
	patchVM(t, c, namespace, name, map[string]any{"metadata": map[string]any{"labels": map[string]any{maintenance.LabelStrategy: value}}})
}

func request(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	annotate(t, c, node, map[string]string{maintenance.AnnotationRequested: "true"})
}

func force(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	annotate(t, c, node, map[string]string{maintenance.AnnotationRequested: "true", maintenance.AnnotationForced: "true"})
}

// leave is the kubectl way out of maintenance.
func leave(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	annotate(t, c, node, map[string]string{maintenance.AnnotationStatus: ""})
}

func awaitPhase(t *testing.T, c *cluster.Cluster, node string, phase maintenance.Phase) *corev1.Node {
	t.Helper()
	return c.AwaitNode(t, node, fmt.Sprintf("phase %q", phase), func(n *corev1.Node) bool { return maintenance.PhaseOf(n) == phase })
}

// awaitMessage waits until the condition's message holds all of the texts.
func awaitMessage(t *testing.T, c *cluster.Cluster, node string, texts ...string) *corev1.Node {
	t.Helper()
	return c.AwaitNode(t, node, fmt.Sprintf("a message with %q", texts), func(n *corev1.Node) bool {
		condition := maintenance.Condition(n)
		if condition == nil {
			return false
		}
		for _, text := range texts {
			if !strings.Contains(condition.Message, text) {
				return false
			}
		}
		return true
	})
}

// awaitOut waits until a node shows nothing of a maintenance.
func awaitOut(t *testing.T, c *cluster.Cluster, node string) *corev1.Node {
	t.Helper()
	return c.AwaitNode(t, node, "out of maintenance", func(n *corev1.Node) bool {
		for key := range n.Annotations {
			if key == maintenance.AnnotationRequested || key == maintenance.AnnotationForced || key == maintenance.AnnotationStatus || strings.HasPrefix(key, "drydock.dev/") {
				return false
			}
		}
		return maintenance.Condition(n) == nil
	})
}

func awaitRunningOn(t *testing.T, c *cluster.Cluster, namespace, name string, hosts ...string) *virtv1.VirtualMachineInstance {
	t.Helper()
	return c.AwaitVMI(t, namespace, name, fmt.Sprintf("running on one of %v", hosts), func(vmi *virtv1.VirtualMachineInstance) bool {
		for _, host := range hosts {
			if vmi.Status.NodeName == host && vmi.Status.Phase == virtv1.Running && vmi.DeletionTimestamp == nil {
				return true
			}
		}
		return false
	})
}

// awaitForgotten waits until a VM carries neither marker nor record.
func awaitForgotten(t *testing.T, c *cluster.Cluster, namespace, name string) *virtv1.VirtualMachine {
	t.Helper()
	return c.AwaitVM(t, namespace, name, "no marker and no record", func(vm *virtv1.VirtualMachine) bool {
		_, marker := vm.Annotations[maintenance.AnnotationMarker]
		_, record := vm.Annotations[maintenance.AnnotationVMRecord]
		return !marker && !record
	})
}

func marker(vm *virtv1.VirtualMachine) string { return vm.Annotations[maintenance.AnnotationMarker] }
