package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

const (
	// idleFor is how long a manager is watched that has nothing to do.
	idleFor = 30 * time.Second
	// bystanders are nodes that only send heartbeats, of which the manager hears.
	bystanders = 40
	// drained is how many nodes are taken into maintenance at once.
	drained = 2
)

// needs is what a manager takes of its machine: what the chart's requests rest on.
type needs struct {
	manager *manager.Manager
	since   time.Time
	before  manager.Usage
	text    strings.Builder
}

func (n *needs) usage(t *attempt) manager.Usage {
	u, err := n.manager.Usage()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (n *needs) begin(t *attempt) { n.since, n.before = time.Now(), n.usage(t) }

// end notes what was needed since begin.
func (n *needs) end(t *attempt, what string) {
	now, took := n.usage(t), time.Since(n.since)
	used := now.Processor - n.before.Processor
	fmt.Fprintf(&n.text, "   %s   %.0fm of a processor for %s, %d MiB, until then at most %d MiB\n",
		what, 1000*used.Seconds()/took.Seconds(), seconds(took), now.Resident>>20, now.Peak>>20)
}

// idle watches a manager that has nothing to do but to hear of heartbeats.
func (n *needs) idle(t *attempt) {
	n.begin(t)
	select {
	case <-time.After(idleFor):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
	n.end(t, "idle")
}

// drain takes nodes into maintenance at once.
func (n *needs) drain(t *attempt, c *cluster.Cluster, nodes []string) {
	n.begin(t)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, maintenance.AnnotationRequested)
	if err := inParallel(t.Context(), nodes, len(nodes), func(ctx context.Context, node string) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}); err != nil {
		t.Fatalf("requesting maintenance: %v", err)
	}
	for _, node := range nodes {
		c.AwaitNode(t, node, "in maintenance", func(node *corev1.Node) bool {
			return node.Annotations[maintenance.AnnotationStatus] == maintenance.StatusCompleted
		})
	}
	n.end(t, fmt.Sprintf("%d nodes into maintenance", len(nodes)))
}

func (n *needs) String() string { return "\nwhat the manager needs\n\n" + n.text.String() }
