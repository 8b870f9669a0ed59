package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/tests/cluster"
)

// KubeVirt's default limits, which the dev cluster has.
const (
	slotsPerNode    = 2
	slotsPerCluster = 5
)

// targets are the hosts of a pool that are not drained: with fewer than two a VM would
// have no choice, and the last node would be near.
const targets = 2

// scenario is a set of nodes that are drained at once.
type scenario struct {
	nodes, vms int
	migration  time.Duration
}

func parseScenario(name string) (scenario, error) {
	if name == "six" {
		return scenario{nodes: 6, vms: 24, migration: 10 * time.Second}, nil
	}
	var vms, seconds int
	if _, err := fmt.Sscanf(name, "%dx%d", &vms, &seconds); err != nil || vms < 1 || seconds < 1 {
		return scenario{}, fmt.Errorf("-scenarios: %q is neither \"six\" nor like 10x30", name)
	}
	return scenario{nodes: 1, vms: vms, migration: time.Duration(seconds) * time.Second}, nil
}

func (s scenario) String() string {
	if s.nodes == 1 {
		return fmt.Sprintf("%d VMs × %s", s.vms, s.migration)
	}
	return fmt.Sprintf("%d nodes at once, %d VMs × %s", s.nodes, s.vms, s.migration)
}

// slots is how many migrations KubeVirt allows at a time.
func (s scenario) slots() int { return min(s.nodes*slotsPerNode, slotsPerCluster) }

// allowed is how long the work takes if no slot is ever idle and nothing else costs
// any time.
func (s scenario) allowed() time.Duration {
	return s.migration * time.Duration(s.vms) / time.Duration(s.slots())
}

// patience is when a tool is given up.
func (s scenario) patience() time.Duration { return 3*s.allowed() + 2*time.Minute }

// scene is one measurement's stage: VMs that run on the nodes to be drained, and
// somebody who watches.
type scene struct {
	scenario
	*cluster.Cluster
	nodes      []string
	namespace  string
	user       string
	kubeconfig string
	observer   *observer
	// logs is a folder for what is kept, "" for nothing.
	logs string
}

// keep leaves a file behind, if that is wanted.
func (s *scene) keep(t *attempt, name, content string) {
	if s.logs == "" {
		return
	}
	file := filepath.Join(s.logs, fmt.Sprintf("%d-nodes-%dx%s-%s", s.scenario.nodes, s.vms, s.migration, name))
	err := os.MkdirAll(s.logs, 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(content), 0o644)
	}
	if err != nil {
		t.Logf("keeping logs: %v", err)
	}
}

// measure runs each tool of a scenario in turn, beginning with the given one.
func (p program) measure(t *attempt, s scenario, first int) []result {
	results := make([]result, len(tools))
	t.part(s.String(), func(t *attempt) {
		c := cluster.For(t)
		pool := c.Pool(t, s.nodes+targets)
		for n := range tools {
			which := (first + n) % len(tools)
			tool := tools[which]
			t.part(s.String()+", "+tool.name, func(t *attempt) {
				sc := s.stage(t, pool, tool)
				sc.logs = p.logs
				t.Logf("measuring")
				results[which] = sc.run(t, tool, p.trace)
				t.Logf("took %s", seconds(results[which].wall))
			})
			s.clear(t, c, pool)
		}
	})
	return results
}

// stage makes the VMs, and returns when all of them run where they should.
func (s scenario) stage(t *attempt, pool *cluster.Pool, tool tool) *scene {
	c := cluster.For(t)
	sc := &scene{
		scenario: s, Cluster: c, nodes: pool.Hosts[:s.nodes], namespace: c.Namespace(t),
		user: strings.ToLower(pool.Label + "-" + tool.user),
	}
	sc.kubeconfig = c.Kubeconfig(t, sc.user)
	vms := make([]*cluster.VM, s.vms)
	for n := range vms {
		vms[n] = c.VM(sc.namespace, fmt.Sprintf("vm-%02d", n+1)).
			PinnedTo(pool).On(sc.nodes[n%s.nodes]).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate).
			Annotate("sim.drydock.dev/migration-seconds", fmt.Sprint(s.migration.Seconds()))
		vms[n].Submit(t)
	}
	for _, vm := range vms {
		vm.AwaitRunning(t)
	}
	sc.observer = observe(t, c, sc.namespace, sc.nodes)
	return sc
}

// clear leaves the hosts as they were, and returns once nothing of the last
// measurement is left, so that the next one has the machine for itself.
func (s scenario) clear(t *attempt, c *cluster.Cluster, pool *cluster.Pool) {
	for _, node := range pool.Hosts[:s.nodes] {
		patch := []byte(`{"spec":{"unschedulable":null}}`)
		if _, err := c.Kube.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatalf("uncordoning: %v", err)
		}
	}
	c.Eventually(t, "the last measurement's namespace is gone", func(ctx context.Context) error {
		list, err := c.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for n := range list.Items {
			if list.Items[n].Status.Phase == corev1.NamespaceTerminating {
				return errors.New(list.Items[n].Name + " is terminating")
			}
		}
		return nil
	})
}
