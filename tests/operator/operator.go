// Package operator is what people do to nodes and VMs in tests, with kubectl alone, and
// what they wait to see.
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
)

// Patch sends a merge patch.
func Patch(t *testing.T, body map[string]any, send func(context.Context, []byte) error) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if err := send(t.Context(), raw); err != nil {
		t.Fatal(err)
	}
}

// PatchNode merges a change into a node.
func PatchNode(t *testing.T, c *cluster.Cluster, node string, body map[string]any) {
	t.Helper()
	Patch(t, body, func(ctx context.Context, raw []byte) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
}

// PatchVM merges a change into a VM.
func PatchVM(t *testing.T, c *cluster.Cluster, namespace, name string, body map[string]any) {
	t.Helper()
	Patch(t, body, func(ctx context.Context, raw []byte) error {
		_, err := c.KubeVirt.KubevirtV1().VirtualMachines(namespace).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
}

// Annotate sets annotations of a node; an empty value removes one.
func Annotate(t *testing.T, c *cluster.Cluster, node string, annotations map[string]string) {
	t.Helper()
	changes := map[string]any{}
	for key, value := range annotations {
		changes[key] = nil
		if value != "" {
			changes[key] = value
		}
	}
	PatchNode(t, c, node, map[string]any{"metadata": map[string]any{"annotations": changes}})
}

// AnnotateVMI sets annotations of a running VMI, which the simulator obeys at once.
func AnnotateVMI[V any](t *testing.T, c *cluster.Cluster, namespace, name string, annotations map[string]V) {
	t.Helper()
	Patch(t, map[string]any{"metadata": map[string]any{"annotations": annotations}}, func(ctx context.Context, raw []byte) error {
		_, err := c.KubeVirt.KubevirtV1().VirtualMachineInstances(namespace).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
}

// AwaitSeen returns when the manager knows a VMI as it is now: it copies to the launcher a
// label that is put on for that. The news of a VMI and those of a Node come to it in two
// streams, either of which may be late.
func AwaitSeen(t *testing.T, c *cluster.Cluster, namespace, vmi string) {
	t.Helper()
	const label = "harvesterhci.io/seen"
	var uid types.UID
	Patch(t, map[string]any{"metadata": map[string]any{"labels": map[string]any{label: "now"}}}, func(ctx context.Context, raw []byte) error {
		now, err := c.KubeVirt.KubevirtV1().VirtualMachineInstances(namespace).Patch(ctx, vmi, types.MergePatchType, raw, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		uid = now.UID
		return nil
	})
	c.Eventually(t, "the label is copied to the launcher", func(ctx context.Context) error {
		pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: label + "=now," + virtv1.CreatedByLabel + "=" + string(uid)})
		if err == nil && len(pods.Items) == 0 {
			err = errors.New("no launcher has it")
		}
		return err
	})
}

// Request asks for maintenance.
func Request(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	Annotate(t, c, node, map[string]string{maintenance.AnnotationRequested: "true"})
}

// Force asks for maintenance with force.
func Force(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	Annotate(t, c, node, map[string]string{maintenance.AnnotationRequested: "true", maintenance.AnnotationForced: "true"})
}

// RequestUntilAdmitted asks for maintenance, and again while it is refused: the manager
// learns of nodes, VMs and storage in streams of their own, each of which may be late.
func RequestUntilAdmitted(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	c.Eventually(t, "the request is admitted", func(ctx context.Context) error {
		n, err := c.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case maintenance.Engaged(n):
			return nil
		case !maintenance.Plain.Request(n).Wanted && maintenance.PhaseOf(n) != maintenance.PhaseValidating:
			Request(t, c, node)
		}
		return fmt.Errorf("it shows %q", Message(n))
	})
}

// Leave is the kubectl way out of maintenance.
func Leave(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	Annotate(t, c, node, map[string]string{maintenance.AnnotationStatus: ""})
}

// Relabel sets a VM's strategy; "" removes the label.
func Relabel(t *testing.T, c *cluster.Cluster, namespace, name, strategy string) {
	t.Helper()
	var value any
	if strategy != "" {
		value = strategy
	}
	PatchVM(t, c, namespace, name, map[string]any{"metadata": map[string]any{"labels": map[string]any{maintenance.LabelStrategy: value}}})
}

// ConfigureMigrations merges a change into what KubeVirt's resource says of migrations; nil
// stands for KubeVirt's default.
func ConfigureMigrations(ctx context.Context, c *cluster.Cluster, migrations map[string]any) error {
	list, err := c.KubeVirt.KubevirtV1().KubeVirts(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("KubeVirt resources: %w", err)
	}
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"configuration": map[string]any{"migrations": migrations}}})
	if err != nil {
		return fmt.Errorf("patch of the KubeVirt resource: %w", err)
	}
	for n := range list.Items {
		kv := &list.Items[n]
		if _, err := c.KubeVirt.KubevirtV1().KubeVirts(kv.Namespace).Patch(ctx, kv.Name, types.MergePatchType, raw, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("KubeVirt resource: %w", err)
		}
	}
	return nil
}

// Movable is a VM on a host of a pool that KubeVirt migrates when it is evicted.
func Movable(c *cluster.Cluster, namespace, name string, pool *cluster.Pool) *cluster.VM {
	return c.VM(namespace, name).On(pool.Host(0)).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate)
}

// Create makes VMs side by side and waits until they run.
func Create(t *testing.T, vms ...*cluster.VM) {
	t.Helper()
	for _, vm := range vms {
		vm.Submit(t)
	}
	for _, vm := range vms {
		vm.AwaitRunning(t)
	}
}

// GetVM reads a VM.
func GetVM(t *testing.T, c *cluster.Cluster, namespace, name string) *virtv1.VirtualMachine {
	t.Helper()
	vm, err := c.KubeVirt.KubevirtV1().VirtualMachines(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

// RecordOf reads Drydock's record on a node.
func RecordOf(t *testing.T, node *corev1.Node) *maintenance.NodeRecord {
	t.Helper()
	record, err := maintenance.NodeRecordOf(node)
	if err != nil || record == nil {
		t.Fatalf("node %s has no record (%v): %v", node.Name, err, node.Annotations)
	}
	return record
}

// Marker is the node that a VM waits for, "" for none.
func Marker(vm *virtv1.VirtualMachine) string { return vm.Annotations[maintenance.AnnotationMarker] }

// HasMarker reports that a VM waits for a node.
func HasMarker(vm *virtv1.VirtualMachine) bool { return Marker(vm) != "" }

// Message is the message of the node's condition, "" without one.
func Message(node *corev1.Node) string {
	if condition := maintenance.Condition(node); condition != nil {
		return condition.Message
	}
	return ""
}

// Holds reports that a text holds all parts.
func Holds(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

// AwaitPhase waits for a phase.
func AwaitPhase(t *testing.T, c *cluster.Cluster, node string, phase maintenance.Phase) *corev1.Node {
	t.Helper()
	return c.AwaitNode(t, node, fmt.Sprintf("phase %q", phase), func(n *corev1.Node) bool { return maintenance.PhaseOf(n) == phase })
}

// AwaitMessage waits until the condition's message holds all of the texts.
func AwaitMessage(t *testing.T, c *cluster.Cluster, node string, texts ...string) *corev1.Node {
	t.Helper()
	return c.AwaitNode(t, node, fmt.Sprintf("a message with %q", texts), func(n *corev1.Node) bool { return Holds(Message(n), texts) })
}

// AwaitOut waits until a node shows nothing of a maintenance.
func AwaitOut(t *testing.T, c *cluster.Cluster, node string) *corev1.Node {
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

// AwaitEvent waits for an event about the object whose message holds the texts.
func AwaitEvent(t *testing.T, c *cluster.Cluster, kind, namespace, name, reason string, texts ...string) corev1.Event {
	t.Helper()
	var found corev1.Event
	c.Eventually(t, fmt.Sprintf("event %s about %s %s with %q", reason, kind, name, texts), func(context.Context) error {
		for _, event := range c.Events(t, kind, namespace, name) {
			if event.Reason == reason && Holds(event.Message, texts) {
				found = event
				return nil
			}
		}
		return errors.New("there is none")
	})
	return found
}

// AwaitRunningOn waits until a VM runs on one of the hosts.
func AwaitRunningOn(t *testing.T, c *cluster.Cluster, namespace, name string, hosts ...string) *virtv1.VirtualMachineInstance {
	t.Helper()
	return c.AwaitVMI(t, namespace, name, fmt.Sprintf("running on one of %v", hosts), func(vmi *virtv1.VirtualMachineInstance) bool {
		return slices.Contains(hosts, vmi.Status.NodeName) && vmi.Status.Phase == virtv1.Running && vmi.DeletionTimestamp == nil
	})
}

// AwaitForgotten waits until a VM carries neither marker nor record.
func AwaitForgotten(t *testing.T, c *cluster.Cluster, namespace, name string) *virtv1.VirtualMachine {
	t.Helper()
	return c.AwaitVM(t, namespace, name, "no marker and no record", func(vm *virtv1.VirtualMachine) bool {
		_, marker := vm.Annotations[maintenance.AnnotationMarker]
		_, record := vm.Annotations[maintenance.AnnotationVMRecord]
		return !marker && !record
	})
}
