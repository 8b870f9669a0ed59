package limits

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

var (
	crds     = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	upgrades = schema.GroupVersionResource{Group: "harvesterhci.io", Version: "v1beta1", Resource: "upgrades"}
)

// harvester makes the cluster look like one of Harvester's until the test ends.
func harvester(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	_, err := c.Dynamic.Resource(crds).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "upgrades.harvesterhci.io"},
		"spec": map[string]any{
			"group": upgrades.Group, "scope": "Namespaced",
			"names": map[string]any{"kind": "Upgrade", "plural": "upgrades", "singular": "upgrade"},
			"versions": []any{map[string]any{
				"name": upgrades.Version, "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": anything},
			}},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Dynamic.Resource(crds).Delete(context.WithoutCancel(t.Context()), "upgrades.harvesterhci.io", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	c.Eventually(t, "upgrades are served", func(ctx context.Context) error {
		_, err := c.Dynamic.Resource(upgrades).Namespace("harvester-system").List(ctx, metav1.ListOptions{})
		return err
	})
}

// upgrade begins a Harvester upgrade; end completes it.
func upgrade(t *testing.T, c *cluster.Cluster, name string) (end func()) {
	t.Helper()
	client := c.Dynamic.Resource(upgrades).Namespace("harvester-system")
	object, err := client.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"harvesterhci.io/latestUpgrade": "true"}},
		"spec":     map[string]any{"version": "v1.8.1"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		object.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Completed", "status": "True"}}}
		if _, err := client.UpdateStatus(t.Context(), object, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// A Harvester upgrade drains nodes itself: while it runs, a request is refused with its
// name, also under force, and what it has done to another node is left alone. Harvester's
// arrival is noticed without a restart.
func TestARequestIsRefusedWhileHarvesterIsBeingUpgraded(t *testing.T) {
	c, m := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 3)
	host, drained := pool.Host(0), pool.Host(1)
	// Harvester writes this into every VM, where it is no consent to an interruption.
	c.VM(ns, "possible").On(host).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrateIfPossible).
		Annotate("sim.drydock.dev/not-live-migratable", "HostDeviceNotLiveMigratable: VMI uses a PCI host device").Create(t)
	stopped := c.VM(ns, "stopped").PinnedTo(pool).RunStrategy(virtv1.RunStrategyHalted).
		AnnotateVM(maintenance.AnnotationMarker, drained).Strategy("ShutdownAndRestartAfterDisable").Create(t)
	node, err := c.Kube.CoreV1().Nodes().Get(t.Context(), drained, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Spec.Unschedulable = true
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: maintenance.DefaultDrainTaint, Value: "scheduling", Effect: corev1.TaintEffectNoSchedule})
	if _, err := c.Kube.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	harvester(t, c)
	end := upgrade(t, c, "hvst-upgrade-x7k")

	for _, annotations := range []map[string]string{
		{maintenance.AnnotationRequested: "true"},
		{maintenance.AnnotationRequested: "true", maintenance.AnnotationForced: "true"},
	} {
		operator.Annotate(t, c, host, annotations)
		refused := c.AwaitNode(t, host, "the request is refused", func(n *corev1.Node) bool {
			condition := maintenance.Condition(n)
			return condition != nil && condition.Reason == string(maintenance.PhaseError) && !maintenance.Plain.Request(n).Present
		})
		if message := maintenance.Condition(refused).Message; !strings.Contains(message, "hvst-upgrade-x7k") || refused.Spec.Unschedulable {
			t.Errorf("during an upgrade: cordoned %t, %s", refused.Spec.Unschedulable, message)
		}
	}
	now, err := c.Kube.CoreV1().Nodes().Get(t.Context(), drained, metav1.GetOptions{})
	if err != nil || !now.Spec.Unschedulable || len(now.Spec.Taints) == 0 {
		t.Errorf("the node that the upgrade drains was touched (%v): %+v", err, now.Spec)
	}
	vm, err := c.KubeVirt.KubevirtV1().VirtualMachines(ns).Get(t.Context(), "stopped", metav1.GetOptions{})
	if err != nil || vm.Spec.RunStrategy == nil || *vm.Spec.RunStrategy != virtv1.RunStrategyHalted || vm.Annotations[maintenance.AnnotationMarker] != stopped.Annotations[maintenance.AnnotationMarker] {
		t.Errorf("a VM that the upgrade stopped was touched (%v)", err)
	}

	end()
	// The watch of upgrades may lag behind.
	c.Eventually(t, "refused for the VM alone", func(context.Context) error {
		operator.Request(t, c, host)
		refused := c.AwaitNode(t, host, "refused", func(n *corev1.Node) bool {
			return maintenance.PhaseOf(n) == maintenance.PhaseError && !maintenance.Plain.Request(n).Present
		})
		if message := maintenance.Condition(refused).Message; strings.Contains(message, "upgrade") || !strings.Contains(message, ns+"/possible") {
			return errors.New(message)
		}
		return nil
	})
	// Where nobody but owners writes it, a flag says that it is one.
	m.flags = []string{"--live-migrate-if-possible-consents", "yes"}
	m.succeed(t, c)
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitRunningOn(t, c, ns, "possible", pool.Host(2))
}
