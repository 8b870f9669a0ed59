package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
	"github.com/drydock-dev/drydock/tests/webhooks"
)

const (
	cordon   = `{"spec":{"unschedulable":true}}`
	uncordon = `{"spec":{"unschedulable":null}}`
	ask      = `{"metadata":{"annotations":{"harvesterhci.io/drain-requested":"true"}}}`
	force    = `{"metadata":{"annotations":{"harvesterhci.io/drain-requested":"true","harvesterhci.io/drain-forced":"true"}}}`
)

func patchNode(ctx context.Context, c *cluster.Cluster, name, body string, subresources ...string) error {
	_, err := c.Kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
	return err
}

func dryNode(ctx context.Context, c *cluster.Cluster, name, body string) error {
	_, err := c.Kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// refusedFor checks that a write is refused with a reason, and returns it.
func refusedFor(t *testing.T, what string, err error, reason string) string {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), reason) {
		t.Fatalf("%s: %v, want a refusal for %q", what, err, reason)
	}
	_, sentence, _ := strings.Cut(err.Error(), "denied the request: ")
	return sentence
}

// Not parallel, and so before all that are: it needs the whole cluster's nodes.
func TestTheLastNodeAndTheQuorumAreKept(t *testing.T) {
	c := admitted(t)
	ctx := t.Context()
	list, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var last string
	var others []string
	for n := range list.Items {
		node := &list.Items[n]
		switch _, member := node.Labels["node-role.kubernetes.io/control-plane"]; {
		case member && last == "":
			last = node.Name
		default:
			others = append(others, node.Name)
		}
	}
	for _, name := range others {
		if err := patchNode(ctx, c, name, cordon); err != nil {
			t.Fatalf("cordon of %s, while %s remains: %v", name, last, err)
		}
		t.Cleanup(func() { _ = patchNode(context.Background(), c, name, uncordon) })
	}
	const lastNode = "no other node would remain ready, schedulable and out of maintenance"
	awaitRefusal(t, c, last, cordon, lastNode)
	told := refusedFor(t, "cordon of the last node", patchNode(ctx, c, last, cordon), lastNode)
	for what, body := range map[string]string{"a request for it": ask, "a forced one": force} {
		if got := refusedFor(t, what, patchNode(ctx, c, last, body), lastNode); got != told {
			t.Errorf("%s is refused with %q, the cordon with %q", what, got, told)
		}
		if got := refusedFor(t, what+", dry", dryNode(ctx, c, last, body), lastNode); got != told {
			t.Errorf("%s is refused in a dry run with %q", what, got)
		}
	}
	// The webhook has not seen this one: its sentence is the pre-check's.
	if err := patchNode(ctx, c, last, ask, "status"); err != nil {
		t.Fatal(err)
	}
	operator.AwaitMessage(t, c, last, "refused: "+told)
	heartbeatsGoOn(t, c, last)
	for _, name := range others {
		if err := patchNode(ctx, c, name, uncordon); err != nil {
			t.Fatal(err)
		}
	}
	c.Eventually(t, "the last node is none any more", func(ctx context.Context) error { return dryNode(ctx, c, last, cordon) })

	var second string
	for _, name := range others {
		if _, member := list.Items[index(list, name)].Labels["node-role.kubernetes.io/control-plane"]; member {
			second = name
		}
	}
	operator.Request(t, c, last)
	operator.AwaitPhase(t, c, last, maintenance.PhaseCompleted)
	const quorum = "are needed for quorum"
	awaitRefusal(t, c, second, ask, quorum)
	told = refusedFor(t, "a second control plane", patchNode(ctx, c, second, ask), quorum)
	if got := refusedFor(t, "with force", patchNode(ctx, c, second, force), quorum); got != told {
		t.Errorf("with force refused with %q, without with %q", got, told)
	}
	if err := dryNode(ctx, c, second, cordon); err != nil {
		t.Errorf("a plain cordon of a second control plane: %v", err)
	}
	if err := patchNode(ctx, c, second, ask, "status"); err != nil {
		t.Fatal(err)
	}
	operator.AwaitMessage(t, c, second, "refused: "+told)
	operator.Leave(t, c, last)
	operator.AwaitOut(t, c, last)
}

func index(list *corev1.NodeList, name string) int {
	for n := range list.Items {
		if list.Items[n].Name == name {
			return n
		}
	}
	return -1
}

// awaitRefusal waits until the webhook's cache knows what was just written.
func awaitRefusal(t *testing.T, c *cluster.Cluster, node, body, reason string) {
	t.Helper()
	c.Eventually(t, "a refusal for "+reason, func(ctx context.Context) error {
		err := dryNode(ctx, c, node, body)
		if err != nil && strings.Contains(err.Error(), reason) {
			return nil
		}
		return fmt.Errorf("answered with %w", err)
	})
}

// heartbeatsGoOn waits for a later heartbeat of a node's kubelet, and makes the changes
// that others make to nodes all the time.
func heartbeatsGoOn(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	lease, err := c.Kube.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"a label":           patchNode(t.Context(), c, name, `{"metadata":{"labels":{"test.drydock.dev/a":"b"}}}`),
		"an annotation":     patchNode(t.Context(), c, name, `{"metadata":{"annotations":{"test.drydock.dev/a":"b"}}}`),
		"a taint":           patchNode(t.Context(), c, name, `{"spec":{"taints":[{"key":"test.drydock.dev/a","effect":"PreferNoSchedule"}]}}`),
		"no taint":          patchNode(t.Context(), c, name, `{"spec":{"taints":[]}}`),
		"a status":          patchNode(t.Context(), c, name, `{"status":{"nodeInfo":{"kernelVersion":"1"}}}`, "status"),
		"an uncordon":       patchNode(t.Context(), c, name, uncordon),
		"leaving unasked":   patchNode(t.Context(), c, name, `{"metadata":{"annotations":{"harvesterhci.io/maintain-status":null}}}`),
		"request withdrawn": patchNode(t.Context(), c, name, `{"metadata":{"annotations":{"harvesterhci.io/drain-requested":null}}}`),
	} {
		if err != nil {
			t.Errorf("%s on node %s: %v", what, name, err)
		}
	}
	c.Eventually(t, "another heartbeat of "+name, func(ctx context.Context) error {
		now, err := c.Kube.CoordinationV1().Leases("kube-node-lease").Get(ctx, name, metav1.GetOptions{})
		if err == nil && !now.Spec.RenewTime.After(lease.Spec.RenewTime.Time) {
			err = fmt.Errorf("the last one was at %s", now.Spec.RenewTime)
		}
		return err
	})
}

// With nobody behind the webhooks, and a failure policy of Fail, what they have no
// opinion on goes on, and the rest is refused because they do not answer.
func TestWithoutTheWebhooksAClusterGoesOn(t *testing.T) {
	c := admitted(t)
	ns, host := c.Namespace(t), c.Pool(t, 1).Host(0)
	c.VM(ns, "a").RunStrategy(virtHalted).Create(t)
	target := webhooks.Target{Name: "nobody", Namespace: "harvester-system", Service: "drydock-webhook", Port: 1}
	t.Cleanup(func() {
		if err := webhooks.Remove(context.Background(), c, target.Name); err != nil {
			t.Error(err)
		}
	})
	webhooks.Install(t, c, target)
	unanswered := func(err error) error {
		if err != nil && strings.Contains(err.Error(), "failed calling webhook") {
			return nil
		}
		return fmt.Errorf("answered with %w", err)
	}
	c.Eventually(t, "the webhooks that nobody answers are called", func(ctx context.Context) error { return unanswered(dryNode(ctx, c, host, cordon)) })
	heartbeatsGoOn(t, c, host)
	client := c.KubeVirt.KubevirtV1().VirtualMachines(ns)
	for what, body := range map[string]string{
		"an annotation": `{"metadata":{"annotations":{"a":"b"}}}`, "a finalizer": `{"metadata":{"finalizers":["test.drydock.dev/a"]}}`, "no finalizer": `{"metadata":{"finalizers":null}}`,
	} {
		if _, err := client.Patch(t.Context(), "a", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Errorf("%s on a VM: %v", what, err)
		}
	}
	if _, err := client.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"status":{"printableStatus":"Stopped"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Errorf("the status of a VM: %v", err)
	}
	if _, err := client.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"`+maintenance.LabelStrategy+`":"Shutdown"}}}`), metav1.PatchOptions{}); unanswered(err) != nil {
		t.Errorf("a strategy that nobody checks: %v", err)
	}
	if err := client.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deletion of a VM: %v", err)
	}
}

func TestWhoAskedIsKnown(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	host := c.Pool(t, 2).Host(0)
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig(t, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	alice, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"metadata":{"annotations":{"harvesterhci.io/drain-requested":"true","drydock.dev/requested-by":"bob"}}}`)
	if _, err := alice.CoreV1().Nodes().Patch(t.Context(), host, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	node := operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	if got := operator.RecordOf(t, node).RequestedBy; got != "alice" {
		t.Errorf("the record says that %q asked", got)
	}
}
