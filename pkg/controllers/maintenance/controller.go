package maintenance

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/execute"
	kubevirtcontrollers "github.com/drydock-dev/drydock/pkg/generated/controllers/kubevirt.io/v1"
	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// Gatherer builds the snapshots that plans rest on.
type Gatherer interface {
	Node(ctx context.Context, node *corev1.Node, withPods bool) (*plan.Snapshot, error)
	Asking(ctx context.Context, asks func(*corev1.Node) bool) ([]*plan.Snapshot, error)
	Draining(s *plan.Snapshot) error
	VM(vm *kubevirtv1.VirtualMachine) (*plan.Snapshot, *plan.StoppedVM, error)
}

// Slots adds to a snapshot how busy KubeVirt is.
type Slots interface{ Slots(s *plan.Snapshot) error }

// Executor carries out plans.
type Executor interface {
	Node(ctx context.Context, node *corev1.Node, p *plan.Plan) (time.Duration, error)
	VM(ctx context.Context, p plan.VMPlan) error
	Tell(node *corev1.Node, event plan.Event)
	Retell(ctx context.Context, node *corev1.Node)
}

// Ledger serialises admission.
type Ledger interface {
	Read(ctx context.Context) (*execute.Page, error)
	Write(ctx context.Context, page *execute.Page) error
}

// PodWatches ends the watch of a node's pods.
type PodWatches interface{ Forget(node string) }

// Stopped lists the VMs that Drydock stopped for a node.
type Stopped interface {
	Stopped(node string) ([]plan.StoppedVM, error)
}

// Observer hears of what was decided, to count it.
type Observer interface {
	// Decided hears of a decision about a request that was carried out.
	Decided(p *plan.Plan)
	// Planned hears of the VMs on a node, none when it is out of maintenance.
	Planned(node string, vms []plan.Fate)
}

// Controller makes passes. It is idle until Lead is called: every replica keeps its
// caches warm, but only the leader acts.
type Controller struct {
	Nodes    corecontrollers.NodeController
	VMs      kubevirtcontrollers.VirtualMachineController
	VMIs     kubevirtcontrollers.VirtualMachineInstanceCache
	Gatherer Gatherer
	Slots    Slots
	Executor Executor
	Ledger   Ledger
	Pods     PodWatches
	Stopped  Stopped
	Memory   *execute.Memory
	// Words are the vocabulary on nodes.
	Words    maintenance.Vocabulary
	Observer Observer
	Log      logrus.FieldLogger

	ctx     context.Context
	leading atomic.Bool
	told    told
	looked  looked
	behind  behind
	// deciding is held while a plan is made, see decide, and admitting is the turn of
	// whoever decides about requests, see admit.
	deciding  sync.Mutex
	admitting turn
}

// Register adds the handlers. The context ends all passes.
func (c *Controller) Register(ctx context.Context) {
	c.ctx = ctx
	c.Nodes.OnChange(ctx, "drydock-node", c.onNode)
	c.VMs.OnChange(ctx, "drydock-vm", c.onVM)
}

// Lead begins to act, with a pass over everything, but on no node before it is seen here
// as it is now.
func (c *Controller) Lead() error {
	c.behind.begin()
	c.leading.Store(true)
	nodes, err := c.Nodes.Cache().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	for _, node := range nodes {
		c.enqueueNode(node.Name)
	}
	vms, err := c.VMs.Cache().List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		return fmt.Errorf("VMs: %w", err)
	}
	for _, vm := range vms {
		_, record := vm.Annotations[maintenance.AnnotationVMRecord]
		if _, marker := vm.Annotations[maintenance.AnnotationMarker]; record || marker {
			c.VMs.EnqueueAfter(vm.Namespace, vm.Name, 0)
		}
	}
	return nil
}

// Reconsider looks at every node that is in maintenance or asks for it. It is called when
// what plans wait for may have become known.
func (c *Controller) Reconsider() {
	if !c.leading.Load() {
		return
	}
	nodes, err := c.Nodes.Cache().List(labels.Everything())
	if err != nil {
		c.Log.WithError(err).Error("nodes to reconsider")
		return
	}
	for _, node := range nodes {
		if c.concerned(node) {
			c.enqueueNode(node.Name)
		}
	}
}

// concerned reports a node that is in maintenance or asks for it.
func (c *Controller) concerned(node *corev1.Node) bool {
	return maintenance.Engaged(node) || c.wants(node)
}

// Rest ceases to act; what is under way ends by itself.
func (c *Controller) Rest() { c.leading.Store(false) }

// enqueueNode asks for a pass at once. Enqueue would not do: lasso counts each call as
// a failure of the key until the next pass, and after thirty of them, which one drain
// easily has within a second, delays the key by two minutes.
func (c *Controller) enqueueNode(name string) { c.Nodes.EnqueueAfter(name, 0) }

func (c *Controller) onNode(name string, node *corev1.Node) (*corev1.Node, error) {
	if !c.leading.Load() {
		return node, nil
	}
	if node == nil {
		c.looked.forget(name)
		c.behind.forget(name)
	} else if old, err := c.lags(name, node); old || err != nil {
		return node, err
	}
	if err := c.enqueueStopped(name); err != nil {
		return node, err
	}
	if node == nil || (c.idle(node, time.Since(node.CreationTimestamp.Time)) && c.looked.at(node)) {
		c.Pods.Forget(name)
		c.Memory.Forget(name)
		c.told.forget(types.NamespacedName{Name: name})
		c.Observer.Planned(name, nil)
		return node, nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, passLimit)
	defer cancel()
	err := c.pass(ctx, node)
	if apierrors.IsConflict(err) {
		// Somebody else has written meanwhile: their event brings a new pass, and this
		// one makes sure.
		c.Nodes.EnqueueAfter(name, time.Second)
		return node, nil
	}
	return node, err
}

// lags reports that nothing may be done on what is seen of a node, see behind.
func (c *Controller) lags(name string, seen *corev1.Node) (bool, error) {
	return c.behind.lags(name, seen, func() (*corev1.NodeList, error) { return c.Nodes.List(metav1.ListOptions{}) })
}

// idle reports a node that neither is in maintenance nor asks for it. Kubelets write
// their nodes all the time: nothing may be gathered for those.
//
// A young node is looked at: another one may have had its name.
func (c *Controller) idle(node *corev1.Node, age time.Duration) bool {
	return !maintenance.Recorded(node) && !c.Words.Request(node).Present && maintenance.PhaseOf(node) != maintenance.PhaseValidating && !plan.Orphaned(c.Words, node) && age > plan.Young
}

// passLimit bounds the requests of one pass together: an API server that does not
// answer must not hold a worker.
const passLimit = time.Minute

func (c *Controller) pass(ctx context.Context, node *corev1.Node) error {
	_, staying := node.Annotations[maintenance.AnnotationStatus]
	withPods := maintenance.Recorded(node) && staying && maintenance.PhaseOf(node) != maintenance.PhaseCompleted
	snapshot, err := c.Gatherer.Node(ctx, node, withPods)
	if err != nil {
		return err
	}
	snapshot.FirstLook = !c.looked.at(node)
	p, err := c.decide(snapshot)
	if err != nil {
		return err
	}
	if snapshot.FirstLook {
		c.Executor.Retell(ctx, node)
	}
	c.looked.note(node)
	c.Observer.Planned(node.Name, p.VMs)
	if p.Admit {
		return c.admit(ctx, node.Name)
	}
	return c.carryOut(ctx, snapshot.Node, p)
}

// decide makes one plan at a time, and what it sends counts before the next one is
// made: two nodes that saw the same free slot would both take it, and KubeVirt looks
// at a migration that found none only every five seconds.
func (c *Controller) decide(snapshot *plan.Snapshot) (*plan.Plan, error) {
	c.deciding.Lock()
	defer c.deciding.Unlock()
	if err := c.Slots.Slots(snapshot); err != nil {
		return nil, err
	}
	snapshot.NoTarget = c.Memory.NoTarget(snapshot.Name)
	p, err := plan.Decide(snapshot)
	if err == nil {
		c.Memory.Reserve(p.Actions, snapshot.Now)
		c.Memory.SetWaiting(snapshot.Name, p.Waiting)
		if p.VMs != nil {
			c.Memory.SetNoTarget(snapshot.Name, p.NoTarget, snapshot.Now)
		}
	}
	return p, err
}

func (c *Controller) carryOut(ctx context.Context, node *corev1.Node, p *plan.Plan) error {
	lasting, transitions := c.told.split(node.Name, p.Events)
	for _, event := range lasting {
		c.Executor.Tell(node, event)
	}
	p.Events = transitions
	wake, err := c.Executor.Node(ctx, node, p)
	if wake > 0 {
		c.Nodes.EnqueueAfter(node.Name, wake)
	}
	if !p.WatchPods {
		c.Pods.Forget(node.Name)
	}
	return err
}

// enqueueStopped looks at the VMs that were stopped for a node whenever it changes:
// they may be due now.
func (c *Controller) enqueueStopped(node string) error {
	stopped, err := c.Stopped.Stopped(node)
	if err != nil {
		return err
	}
	for i := range stopped {
		c.VMs.EnqueueAfter(stopped[i].VM.Namespace, stopped[i].VM.Name, 0)
	}
	return nil
}
