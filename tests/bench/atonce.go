package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

// startAim is how long the last of many nodes may wait for its drain to start.
const startAim = 5 * time.Second

// atOnce measures how long nodes wait for their drains to start when maintenance of
// all of them is requested at once: admission decides about one after the other. Each
// has a VM, so that none is done before the last has started.
func (p program) atOnce(t *attempt, nodes int) {
	c := cluster.For(t)
	pool, ns := c.Pool(t, nodes+targets), c.Namespace(t)
	sc := &scene{
		scenario: scenario{nodes: nodes, vms: nodes, migration: time.Second}, Cluster: c,
		nodes: pool.Hosts[:nodes], namespace: ns, user: strings.ToLower(pool.Label + "-together"), logs: p.logs,
	}
	vms := make([]*cluster.VM, nodes)
	for n := range vms {
		vms[n] = c.VM(ns, fmt.Sprintf("vm-%02d", n)).PinnedTo(pool).On(sc.nodes[n]).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate)
		vms[n].Submit(t)
	}
	for _, vm := range vms {
		vm.AwaitRunning(t)
	}
	sc.observer = observe(t, c, ns, sc.nodes)
	m := manager.Start(t, c.Kubeconfig(t, sc.user))
	t.Cleanup(func() { sc.leave(t, m) })
	sc.settle(t)
	audit := c.Audit(t, sc.user)

	began := time.Now()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, maintenance.AnnotationRequested)
	if err := inParallel(t.Context(), sc.nodes, nodes, func(ctx context.Context, node string) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}); err != nil {
		t.Fatalf("requesting maintenance: %v", err)
	}
	asked := time.Since(began)
	sc.observer.await(t, 2*time.Minute, "cordoned", func(_ string, s *stations) bool { return !s.cordoned.IsZero() })
	sent := count(audit.Requests(t))
	var waits []time.Duration
	sc.observer.mu.Lock()
	for _, s := range sc.observer.nodes {
		waits = append(waits, s.cordoned.Sub(began))
	}
	sc.observer.mu.Unlock()
	slices.Sort(waits)
	fmt.Printf("\n%d nodes requested at once (aim: the last drain has started within %s)\n\n"+
		"   the last request was made after   %s\n   request → cordoned, p50   %s\n   request → cordoned, last   %s\n   requests until then   %d, %.1f for each node\n",
		nodes, startAim, seconds(asked), seconds(waits[len(waits)/2]), seconds(waits[len(waits)-1]), sent.total, float64(sent.total)/float64(nodes))
}
