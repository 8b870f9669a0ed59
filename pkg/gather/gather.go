// Package gather builds the snapshot that a plan rests on: from caches, and from live
// reads where the admission of a request needs them. It is ring 1: it declares what
// it wants of its neighbours as small interfaces and decides nothing.
package gather

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// Gatherer builds snapshots. Its fields are set once, before use.
type Gatherer struct {
	Machines  Machines
	Runs      Runs
	Platform  Platform
	Nodes     Nodes
	LiveNodes LiveNodes
	LivePods  LivePods
	VMIs      VMIs
	Pods      Pods
	Budgets   Budgets
	// Storage returns the volumes' source, nil while there is none.
	Storage func() Storage
	// Pending names what is installed and not known yet, "" for nothing.
	Pending func() string
	// Upgrade names a Harvester upgrade in progress, "" for none.
	Upgrade func() string
	// Waiting counts the VMs of each other node that wait for a migration slot.
	Waiting func(node string) []int
	// PossibleIsConsent is plan.Config.PossibleIsConsent, asked each time, since
	// Harvester's CRDs may come and go.
	PossibleIsConsent func() bool
	Memory            Memory
	Clock             clock.PassiveClock
	Config            plan.Config
}

// Node observes one node from caches. withPods also begins to watch its pods.
func (g *Gatherer) Node(ctx context.Context, node *corev1.Node, withPods bool) (*plan.Snapshot, error) {
	nodes, err := g.Nodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	s, err := g.snapshot(node.Name, nodes)
	if err != nil {
		return nil, err
	}
	s.Node = node
	if withPods {
		if err := g.pods(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Live observes a node as its admission would: the nodes are read from the API server,
// since their engagement and readiness are what limits are counted by, and so is which
// launchers the node has. Everything else is from caches, which must have the VMIs of
// those launchers.
func (g *Gatherer) Live(ctx context.Context, name string) (*plan.Snapshot, error) {
	nodes, err := g.liveNodes(ctx)
	if err != nil {
		return nil, err
	}
	s, err := g.snapshot(name, nodes)
	if err != nil {
		return nil, err
	}
	if s.Requests, err = g.Platform.Requests(); err != nil {
		return nil, fmt.Errorf("requests of launcher pods: %w", err)
	}
	if err := g.liveLaunchers(ctx, s); err != nil {
		return nil, err
	}
	return s, g.Draining(s)
}

// Asking observes each node that asks, on one live reading of all nodes, for one decision
// about all of them. What each needs of the others' drains is added by Draining, once it
// is known who of them was granted.
func (g *Gatherer) Asking(ctx context.Context, asks func(*corev1.Node) bool) ([]*plan.Snapshot, error) {
	nodes, err := g.liveNodes(ctx)
	if err != nil {
		return nil, err
	}
	var snapshots []*plan.Snapshot
	for _, node := range nodes {
		if !asks(node) {
			continue
		}
		s, err := g.snapshot(node.Name, nodes)
		if err != nil {
			return nil, err
		}
		if err := g.liveLaunchers(ctx, s); err != nil {
			return nil, err
		}
		snapshots = append(snapshots, s)
	}
	if len(snapshots) == 0 {
		return nil, nil
	}
	requests, err := g.Platform.Requests()
	if err != nil {
		return nil, fmt.Errorf("requests of launcher pods: %w", err)
	}
	for _, s := range snapshots {
		s.Requests = requests
	}
	return snapshots, nil
}

func (g *Gatherer) liveNodes(ctx context.Context) ([]*corev1.Node, error) {
	list, err := g.LiveNodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	nodes := make([]*corev1.Node, 0, len(list.Items))
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	return nodes, nil
}

// Roster observes the nodes alone, from caches, with the subject as it is given: what an
// answer within an admission request has time for.
func (g *Gatherer) Roster(node *corev1.Node) (*plan.Snapshot, error) {
	nodes, err := g.Nodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	s := g.base(node.Name, nodes)
	s.Node = node
	return s, nil
}

// Draining adds the VMIs of the other nodes that are being drained, or are about to be.
func (g *Gatherer) Draining(s *plan.Snapshot) error {
	for _, node := range s.Nodes {
		drains := s.Granted[node.Name] || (g.Config.Words.Engaged(node) && maintenance.PhaseOf(node) != maintenance.PhaseCompleted)
		if node.Name == s.Name || !drains {
			continue
		}
		instances, err := g.Machines.Instances(node.Name)
		if err != nil {
			return err
		}
		s.Draining = append(s.Draining, instances...)
	}
	return nil
}

// VM observes what decides about one VM that Drydock stopped; nil when it has no
// record.
func (g *Gatherer) VM(vm *kubevirtv1.VirtualMachine) (*plan.Snapshot, *plan.StoppedVM, error) {
	v, err := g.Machines.StoppedVM(vm)
	if err != nil || v == nil {
		return nil, nil, err
	}
	nodes, err := g.Nodes.List(labels.Everything())
	if err != nil {
		return nil, nil, fmt.Errorf("nodes: %w", err)
	}
	s := g.base(v.Record.Node, nodes)
	g.Memory.Recall(v)
	if storage := g.Storage(); storage != nil {
		if v.Volumes, err = storage.Volumes("", claims(v.VM)); err != nil {
			return nil, nil, fmt.Errorf("volumes: %w", err)
		}
	}
	return s, v, nil
}

func (g *Gatherer) base(name string, nodes []*corev1.Node) *plan.Snapshot {
	s := &plan.Snapshot{Now: g.Clock.Now(), Name: name, Nodes: nodes, Config: g.Config, Upgrade: g.Upgrade()}
	s.Config.PossibleIsConsent = g.PossibleIsConsent()
	// Asked before anything that it may be about is read.
	s.Pending, s.ID = g.Pending(), string(uuid.NewUUID())
	for _, node := range nodes {
		if node.Name == name {
			s.Node = node
		}
	}
	return s
}

func (g *Gatherer) snapshot(name string, nodes []*corev1.Node) (*plan.Snapshot, error) {
	s := g.base(name, nodes)
	var err error
	if s.Instances, err = g.Machines.Instances(name); err != nil {
		return nil, err
	}
	if s.Stopped, err = g.Machines.Stopped(name); err != nil {
		return nil, err
	}
	if s.KubeVirt, err = g.Platform.Config(); err != nil {
		return nil, err
	}
	s.Attempts = g.Memory.Attempts()
	for i := range s.Stopped {
		g.Memory.Recall(&s.Stopped[i])
	}
	return s, g.volumes(s)
}

// Slots counts the migrations: not with the rest of a snapshot, since it must be done
// while nobody else decides.
func (g *Gatherer) Slots(s *plan.Snapshot) (err error) {
	s.Migrations, err = g.Platform.Slots(s.Name, g.Memory.Sent(s.Now))
	s.Migrations.Waiting = g.Waiting(s.Name)
	return err
}

func (g *Gatherer) volumes(s *plan.Snapshot) error {
	storage := g.Storage()
	if storage == nil {
		return nil
	}
	var wanted []types.NamespacedName
	for i := range s.Instances {
		wanted = append(wanted, instanceClaims(s.Instances[i].VMI.Namespace, &s.Instances[i].VMI.Spec)...)
	}
	var err error
	if s.Volumes, err = storage.Volumes(s.Name, wanted); err != nil {
		return fmt.Errorf("volumes: %w", err)
	}
	for i := range s.Volumes {
		s.Volumes[i].Users = slices.DeleteFunc(s.Volumes[i].Users, func(user plan.VolumeUser) bool {
			return user.Kind == "VirtualMachineInstance" && !g.Runs.Runs(user.Namespace, user.Name)
		})
	}
	for i := range s.Stopped {
		v := &s.Stopped[i]
		if v.Volumes, err = storage.Volumes("", claims(v.VM)); err != nil {
			return fmt.Errorf("volumes: %w", err)
		}
	}
	return nil
}

func claims(vm *kubevirtv1.VirtualMachine) []types.NamespacedName {
	if vm.Spec.Template == nil {
		return nil
	}
	return instanceClaims(vm.Namespace, &vm.Spec.Template.Spec)
}

func instanceClaims(namespace string, spec *kubevirtv1.VirtualMachineInstanceSpec) []types.NamespacedName {
	var names []types.NamespacedName
	for _, claim := range plan.Claims(spec) {
		names = append(names, types.NamespacedName{Namespace: namespace, Name: claim})
	}
	return names
}

// pods adds the pods that a drain removes, each with the budgets that select it.
func (g *Gatherer) pods(ctx context.Context, s *plan.Snapshot) error {
	pods, known, err := g.Pods.Pods(ctx, s.Name)
	if err != nil {
		return err
	}
	s.PodsKnown = known
	for _, pod := range pods {
		p := plan.Pod{Pod: pod, Budgets: g.budgets(pod)}
		if storage := g.Storage(); storage != nil {
			if p.Policy, err = storage.Holds(pod); err != nil {
				return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
		}
		s.Pods = append(s.Pods, p)
	}
	return g.unlag(ctx, s, g.Pods.Launchers(s.Name))
}

// budgets returns the budgets that select a pod, ordered by name. The lister reads a
// cache and fails only when there is none.
func (g *Gatherer) budgets(pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
	matching, err := g.Budgets.GetPodPodDisruptionBudgets(pod)
	if err != nil {
		return nil
	}
	slices.SortFunc(matching, func(a, b *policyv1.PodDisruptionBudget) int { return strings.Compare(a.Name, b.Name) })
	return matching
}
