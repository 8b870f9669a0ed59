package cluster_test

import (
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/tests/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func TestAVMStartsOnTheChosenHostAndCanLeaveIt(t *testing.T) {
	t.Parallel()
	c := cluster.For(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	c.VM(ns, "a").On(pool.Host(1)).PinnedTo(pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate).Create(t)
	history := c.RecordVMI(t, ns, "a")

	pods, err := c.Kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "kubevirt.io=virt-launcher"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("found %d launchers (%v), want one", len(pods.Items), err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pods.Items[0].Name}}
	// 429 is KubeVirt's "on its way".
	_ = c.Kube.PolicyV1().Evictions(ns).Evict(t.Context(), eviction)

	versions := history.Until(t, "the VM has moved to the other host", func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmi.Status.NodeName == pool.Host(0)
	})
	if first := versions[0]; first.Status.NodeName != pool.Host(1) {
		t.Errorf("the recorded history begins on %s, want %s", first.Status.NodeName, pool.Host(1))
	}
	if len(c.Events(t, "VirtualMachineInstance", ns, "a")) == 0 {
		t.Error("there are no events about the VMI")
	}
}

func TestAHaltedVMHasNoInstance(t *testing.T) {
	t.Parallel()
	c := cluster.For(t)
	ns := c.Namespace(t)
	vm := c.VM(ns, "off").RunStrategy(virtv1.RunStrategyHalted).Strategy("Shutdown").Create(t)
	if got := vm.Labels["harvesterhci.io/maintain-mode-strategy"]; got != "Shutdown" {
		t.Errorf("the strategy's label is %q", got)
	}
	c.AwaitNoVMI(t, ns, "off")
}

func TestRequestsOfAUserAreCounted(t *testing.T) {
	t.Parallel()
	c := cluster.For(t)
	const user = "audited-by-self-test"
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig(t, user))
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	get := func() {
		if _, err := kube.CoreV1().Namespaces().Get(t.Context(), "harvester-system", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	get()
	mark := c.Audit(t, user)
	get()
	if _, err := kube.CoreV1().Nodes().Get(t.Context(), "no-such-node", metav1.GetOptions{}); err == nil {
		t.Fatal("found a node that does not exist")
	}
	requests := mark.Requests(t)
	if len(requests) != 2 {
		t.Fatalf("since the mark: %v, want two requests", requests)
	}
	if got := requests[0].String(); got != "get namespaces harvester-system/harvester-system 200" {
		t.Errorf("the first request is %q", got)
	}
	if got := requests[1].String(); got != "get nodes no-such-node 404" {
		t.Errorf("the second request is %q", got)
	}
}

func TestAUserWithoutGroupsOfAdministratorsMayNothing(t *testing.T) {
	t.Parallel()
	c := cluster.For(t)
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig(t, "nobody", "no-such-group"))
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a user without rights lists nodes")
	}
}

func TestHistoryHoldsEveryVersion(t *testing.T) {
	t.Parallel()
	c := cluster.For(t)
	node := c.Pool(t, 1).Host(0)
	history := c.RecordNode(t, node)
	for _, value := range []string{"1", "2", "3"} {
		c.Eventually(t, "the node takes an annotation", func(ctx context.Context) error {
			object, err := c.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			if err != nil {
				return err
			}
			object.Annotations["test.drydock.dev/step"] = value
			_, err = c.Kube.CoreV1().Nodes().Update(ctx, object, metav1.UpdateOptions{})
			return err
		})
	}
	var steps []string
	for _, version := range history.Until(t, "the last step", func(n *corev1.Node) bool { return n.Annotations["test.drydock.dev/step"] == "3" }) {
		step := version.Annotations["test.drydock.dev/step"]
		if step != "" && (len(steps) == 0 || steps[len(steps)-1] != step) {
			steps = append(steps, step)
		}
	}
	if len(steps) != 3 {
		t.Errorf("the history holds the steps %v, want 1, 2 and 3", steps)
	}
}
