package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// What is awaited, and what is read from histories and from the audit log.

// awaitPass returns once the manager has looked at the node again: it answers a value
// that means nothing with an event. What it was to do before is then done, or never.
func awaitPass(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	poke := "poke-" + rand.String(6)
	operator.Annotate(t, c, node, map[string]string{maintenance.AnnotationRequested: poke})
	operator.AwaitEvent(t, c, "Node", "", node, "MaintenanceRequestInvalid", poke)
	operator.Annotate(t, c, node, map[string]string{maintenance.AnnotationRequested: ""})
}

// countEvents counts events of a reason, repetitions included.
func countEvents(t *testing.T, c *cluster.Cluster, kind, namespace, name, reason string) int {
	t.Helper()
	count := 0
	for _, event := range c.Events(t, kind, namespace, name) {
		if event.Reason == reason {
			count += max(1, int(event.Count))
		}
	}
	return count
}

// never fails the test if one of the versions fulfils the condition.
func never[T metav1.Object](t *testing.T, what string, versions []T, condition func(T) bool) {
	t.Helper()
	for n, version := range versions {
		if condition(version) {
			t.Errorf("%s: version %d of %d of %s: %s", what, n+1, len(versions), version.GetName(), brief(version))
			return
		}
	}
}

func brief(object metav1.Object) string {
	switch o := object.(type) {
	case *corev1.Node:
		return fmt.Sprintf("unschedulable %t, annotations %v, condition %+v", o.Spec.Unschedulable, o.Annotations, maintenance.Condition(o))
	case *virtv1.VirtualMachine:
		return fmt.Sprintf("run strategy %s, annotations %v", runStrategy(o), o.Annotations)
	case *virtv1.VirtualMachineInstance:
		return fmt.Sprintf("phase %s on %s, evacuation %q", o.Status.Phase, o.Status.NodeName, o.Status.EvacuationNodeName)
	}
	return ""
}

// cordons lists how often spec.unschedulable changed, as the values it took.
func cordons(versions []*corev1.Node) []bool {
	var values []bool
	for _, version := range versions {
		if len(values) == 0 || values[len(values)-1] != version.Spec.Unschedulable {
			values = append(values, version.Spec.Unschedulable)
		}
	}
	return values
}

// runs is what became of a VM: its run strategies, and the VMIs that it had.
func runs(versions []*virtv1.VirtualMachine) []string {
	var values []string
	for _, version := range versions {
		if value := runStrategy(version); len(values) == 0 || values[len(values)-1] != value {
			values = append(values, value)
		}
	}
	return values
}

func runStrategy(vm *virtv1.VirtualMachine) string {
	switch {
	case vm.Spec.RunStrategy != nil:
		return string(*vm.Spec.RunStrategy)
	case vm.Spec.Running != nil:
		return fmt.Sprintf("running: %t", *vm.Spec.Running)
	}
	return "none"
}

func instances(versions []*virtv1.VirtualMachineInstance) []types.UID {
	var uids []types.UID
	for _, version := range versions {
		if !slices.Contains(uids, version.UID) {
			uids = append(uids, version.UID)
		}
	}
	return uids
}

func halted(vm *virtv1.VirtualMachine) bool { return runStrategy(vm) == "Halted" }

func getVMI(t *testing.T, c *cluster.Cluster, namespace, name string) *virtv1.VirtualMachineInstance {
	t.Helper()
	vmi, err := c.KubeVirt.KubevirtV1().VirtualMachineInstances(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return vmi
}

func getNode(t *testing.T, c *cluster.Cluster, name string) *corev1.Node {
	t.Helper()
	node, err := c.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// migrationsOf lists a VM's migrations, finished ones included.
func migrationsOf(t *testing.T, c *cluster.Cluster, namespace, name string) []virtv1.VirtualMachineInstanceMigration {
	t.Helper()
	list, err := c.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(m virtv1.VirtualMachineInstanceMigration) bool { return m.Spec.VMIName != name })
}

// writes are the manager's requests that change something in a namespace or on a node,
// since the mark.
func writes(t *testing.T, audit *cluster.Audit, namespace, node string) []cluster.Request {
	t.Helper()
	return slices.DeleteFunc(audit.Requests(t), func(r cluster.Request) bool {
		reads := r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
		mine := (namespace != "" && r.Namespace == namespace) || (node != "" && r.Resource == "nodes" && r.Name == node)
		return reads || !mine || r.Resource == "events"
	})
}

func evictions(t *testing.T, audit *cluster.Audit, namespace string) []cluster.Request {
	t.Helper()
	return slices.DeleteFunc(writes(t, audit, namespace, ""), func(r cluster.Request) bool { return r.Subresource != "eviction" })
}

// deleteNode removes a Node as an administrator does, without draining it.
func deleteNode(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	if err := c.Kube.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func unschedulable(node *corev1.Node) bool { return node.Spec.Unschedulable }

func noRequest(node *corev1.Node) bool {
	_, requested := node.Annotations[maintenance.AnnotationRequested]
	_, forced := node.Annotations[maintenance.AnnotationForced]
	return !requested && !forced
}

// awaitMigrating waits until a migration of the VM moves memory.
func awaitMigrating(t *testing.T, c *cluster.Cluster, namespace, name string) {
	t.Helper()
	c.Eventually(t, "a migration of "+name+" runs", func(context.Context) error {
		for _, m := range migrationsOf(t, c, namespace, name) {
			if m.Status.Phase == virtv1.MigrationRunning {
				return nil
			}
		}
		return errors.New("none does")
	})
}
