// Package limits holds stories that need a manager of their own: one with a drain limit
// or another force policy, or one to be killed, which costs other tests the events that
// it had not sent yet. Each test has a manager of its own, so they run
// one after the other, on a cluster that nobody else is using.
package limits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
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
	code := cluster.Main(m)
	manager.Remove()
	os.Exit(code)
}

// drydock returns the cluster with a manager of these flags. Another may be started
// in its place, see succeed.
func drydock(t *testing.T, flags ...string) (*cluster.Cluster, *running) {
	t.Helper()
	c := cluster.For(t)
	r := &running{kubeconfig: c.Kubeconfig(t, "drydock"), flags: flags}
	r.begin(t)
	t.Cleanup(func() { r.end(t, c) })
	return c, r
}

type running struct {
	*manager.Manager
	kubeconfig string
	flags      []string
}

// end takes the lease along, which saves the next manager the fifteen seconds until it
// expires.
func (r *running) end(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	r.Kill()
	if err := c.Kube.CoordinationV1().Leases("harvester-system").Delete(context.Background(), "drydock", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// succeed kills the manager and starts another.
func (r *running) succeed(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	r.end(t, c)
	r.begin(t)
}

func (r *running) begin(t *testing.T) {
	t.Helper()
	r.Manager = manager.Start(t, r.kubeconfig, r.flags...)
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

func patchNode(t *testing.T, c *cluster.Cluster, node string, body map[string]any) {
	t.Helper()
	patch(t, body, func(ctx context.Context, raw []byte) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
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
	patchNode(t, c, node, map[string]any{"metadata": map[string]any{"annotations": changes}})
}

func request(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	annotate(t, c, node, map[string]string{maintenance.AnnotationRequested: "true"})
}

func leave(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	annotate(t, c, node, map[string]string{maintenance.AnnotationStatus: ""})
}

func awaitPhase(t *testing.T, c *cluster.Cluster, node string, phase maintenance.Phase) *corev1.Node {
	t.Helper()
	return c.AwaitNode(t, node, fmt.Sprintf("phase %q", phase), func(n *corev1.Node) bool { return maintenance.PhaseOf(n) == phase })
}

func message(node *corev1.Node) string {
	if condition := maintenance.Condition(node); condition != nil {
		return condition.Message
	}
	return ""
}

func awaitMessage(t *testing.T, c *cluster.Cluster, node string, texts ...string) *corev1.Node {
	t.Helper()
	return c.AwaitNode(t, node, fmt.Sprintf("a message with %q", texts), func(n *corev1.Node) bool { return holds(message(n), texts) })
}

func holds(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func awaitOut(t *testing.T, c *cluster.Cluster, node string) *corev1.Node {
	t.Helper()
	return c.AwaitNode(t, node, "out of maintenance", func(n *corev1.Node) bool {
		return maintenance.Condition(n) == nil && !maintenance.Engaged(n)
	})
}

func awaitEvent(t *testing.T, c *cluster.Cluster, kind, namespace, name, reason string, texts ...string) {
	t.Helper()
	c.Eventually(t, fmt.Sprintf("event %s about %s %s with %q", reason, kind, name, texts), func(context.Context) error {
		for _, event := range c.Events(t, kind, namespace, name) {
			if event.Reason == reason && holds(event.Message, texts) {
				return nil
			}
		}
		return errors.New("there is none")
	})
}

func awaitRunning(t *testing.T, c *cluster.Cluster, namespace, name string, hosts ...string) *virtv1.VirtualMachineInstance {
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

func awaitForgotten(t *testing.T, c *cluster.Cluster, namespace, name string) *virtv1.VirtualMachine {
	t.Helper()
	return c.AwaitVM(t, namespace, name, "no marker and no record", func(vm *virtv1.VirtualMachine) bool {
		_, record := vm.Annotations[maintenance.AnnotationVMRecord]
		return !record && marker(vm) == ""
	})
}

func hasMarker(vm *virtv1.VirtualMachine) bool { return marker(vm) != "" }

func marker(vm *virtv1.VirtualMachine) string { return vm.Annotations[maintenance.AnnotationMarker] }

func halted(vm *virtv1.VirtualMachine) bool {
	return vm.Spec.RunStrategy != nil && *vm.Spec.RunStrategy == virtv1.RunStrategyHalted
}

// vm begins a VM on the pool's first host that KubeVirt migrates when it is evicted.
func vm(c *cluster.Cluster, namespace, name string, pool *cluster.Pool) *cluster.VM {
	return c.VM(namespace, name).On(pool.Host(0)).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate)
}

func create(t *testing.T, vms ...*cluster.VM) {
	t.Helper()
	for _, vm := range vms {
		vm.Submit(t)
	}
	for _, vm := range vms {
		vm.AwaitRunning(t)
	}
}
