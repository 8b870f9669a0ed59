// Package hosts creates the Node objects that the simulator turns into hosts.
package hosts

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// Annotation makes a Node a simulated host.
const Annotation = "sim.drydock.dev/host"

const (
	roleControlPlane = "node-role.kubernetes.io/control-plane"
	roleEtcd         = "node-role.kubernetes.io/etcd"
	roleWitness      = "node-role.harvesterhci.io/witness"
	schedulable      = "kubevirt.io/schedulable"
)

// Counts says how many hosts of each kind a cluster begins with.
type Counts struct {
	ControlPlanes, Workers, Witnesses int
}

// Nodes returns the Node objects: cp1…, w1…, witness1….
func (c Counts) Nodes() []*corev1.Node {
	var nodes []*corev1.Node
	// No taint: in Harvester, control planes run VMs like everybody else.
	for n := range c.ControlPlanes {
		nodes = append(nodes, node(fmt.Sprintf("cp%d", n+1), map[string]string{roleControlPlane: "true", roleEtcd: "true"}))
	}
	for n := range c.Workers {
		nodes = append(nodes, node(fmt.Sprintf("w%d", n+1), nil))
	}
	for n := range c.Witnesses {
		witness := node(fmt.Sprintf("witness%d", n+1), map[string]string{roleEtcd: "true", roleWitness: "true"})
		witness.Spec.Taints = []corev1.Taint{{Key: roleEtcd, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
		nodes = append(nodes, witness)
	}
	return nodes
}

func node(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: labels, Annotations: map[string]string{Annotation: "true"},
	}}
}

// Create creates the Node objects.
func Create(ctx context.Context, kube kubernetes.Interface, nodes []*corev1.Node) error {
	for _, node := range nodes {
		if _, err := kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the host %s: %w", node.Name, err)
		}
	}
	return nil
}

// AwaitReady waits until every Node is Ready and free of the taint that keeps
// pods off until the controller manager has seen that.
func AwaitReady(ctx context.Context, kube kubernetes.Interface) error {
	var waiting []string
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, fmt.Errorf("listing nodes: %w", err)
		}
		waiting = nil
		for n := range list.Items {
			if !usable(&list.Items[n]) {
				waiting = append(waiting, list.Items[n].Name)
			}
		}
		return len(waiting) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for hosts %v to be Ready: %w", waiting, err)
	}
	return nil
}

func usable(node *corev1.Node) bool {
	// A witness runs etcd and nothing else: no virt-handler makes it schedulable.
	if !Ready(node) || (node.Labels[schedulable] != "true" && node.Labels[roleWitness] != "true") {
		return false
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	return true
}

// Ready tells whether the Node's Ready condition is True.
func Ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
