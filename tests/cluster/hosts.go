package cluster

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	hostAnnotation   = "sim.drydock.dev/host"
	poolLabel        = "test.drydock.dev/pool"
	schedulableLabel = "kubevirt.io/schedulable"
)

// NodeOption changes a host before it is made.
type NodeOption func(*corev1.Node)

// Label puts a label on the Node.
func Label(key, value string) NodeOption {
	return func(node *corev1.Node) { node.Labels[key] = value }
}

// Annotation puts an annotation on the Node; the simulator's are documented in
// hack/devcluster/simulator/README.md.
func Annotation(key, value string) NodeOption {
	return func(node *corev1.Node) { node.Annotations[key] = value }
}

// Taint puts a taint on the Node.
func Taint(key, value string, effect corev1.TaintEffect) NodeOption {
	return func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	}
}

// ControlPlane makes the host a control plane, as Harvester labels them. It counts
// among the cluster's control planes while it exists, in other tests as well.
func ControlPlane() NodeOption {
	return func(node *corev1.Node) {
		maps.Copy(node.Labels, map[string]string{
			"node-role.kubernetes.io/control-plane": "true", "node-role.kubernetes.io/etcd": "true",
		})
	}
}

// Node makes a simulated host for this test, and returns it when it is Ready and
// takes VMs. VMs of other tests may be scheduled to it unless they are pinned,
// which those of package-mates should be.
func (c *Cluster) Node(t testing.TB, name string, options ...NodeOption) *corev1.Node {
	t.Helper()
	c.createNode(t, name, options)
	return c.AwaitNode(t, name, "the host is ready and takes VMs", readyForVMs)
}

func (c *Cluster) createNode(t testing.TB, name string, options []NodeOption) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{}, Annotations: map[string]string{hostAnnotation: "true"},
	}}
	for _, option := range options {
		option(node)
	}
	if _, err := c.Kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatalf("making the host %s: %v", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts = append(c.hosts, name)
}

func readyForVMs(node *corev1.Node) bool {
	if node.Labels[schedulableLabel] != "true" {
		return false
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Pool is a set of hosts that belongs to one test.
type Pool struct {
	// Label is the value of the label test.drydock.dev/pool of its hosts.
	Label string
	// Hosts are the names of its Nodes.
	Hosts []string
}

// Host is the name of the nth host, from 0.
func (p *Pool) Host(n int) string { return p.Hosts[n] }

// Pool makes n hosts for this test. VMs get there, and stay there, with PinnedTo.
func (c *Cluster) Pool(t testing.TB, n int, options ...NodeOption) *Pool {
	t.Helper()
	pool := &Pool{Label: unique("pool-")}
	for host := range n {
		name := fmt.Sprintf("%s-%d", pool.Label, host+1)
		c.createNode(t, name, append([]NodeOption{Label(poolLabel, pool.Label)}, options...))
		pool.Hosts = append(pool.Hosts, name)
	}
	for _, name := range pool.Hosts {
		c.AwaitNode(t, name, "the host is ready and takes VMs", readyForVMs)
	}
	return pool
}
