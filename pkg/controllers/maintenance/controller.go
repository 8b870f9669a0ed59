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
	Live(ctx context.Context, name string) (*plan.Snapshot, error)
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
	// deciding is held while a plan is made, see decide, and admitting while a request
	// is decided about, see grant.
	deciding, admitting sync.Mutex
}

// Register adds the handlers. The context ends all passes.
func (c *Controller) Register(ctx context.Context) {
	c.ctx = ctx
	c.Nodes.OnChange(ctx, "drydock-node", c.onNode)
	c.VMs.OnChange(ctx, "drydock-vm", c.onVM)
}

// Lead begins to act, with a pass over everything.
func (c *Controller) Lead() error {
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
	if err := c.enqueueStopped(name); err != nil {
		return node, err
	}
	if node == nil {
		c.looked.forget(name)
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

// idle reports a node that neither is in maintenance nor asks for it. Kubelets write
// their nodes all the time: nothing may be gathered for those.
//
// A young node is looked at: another one may have had its name.
func (c *Controller) idle(node *corev1.Node, age time.Duration) bool {
	_, recorded := node.Annotations[maintenance.AnnotationNodeRecord]
	return !recorded && !c.Words.Request(node).Present && maintenance.PhaseOf(node) != maintenance.PhaseValidating && age > plan.Young
}

// passLimit bounds the requests of one pass together: an API server that does not
// answer must not hold a worker.
const passLimit = time.Minute

func (c *Controller) pass(ctx context.Context, node *corev1.Node) error {
	_, engaged := node.Annotations[maintenance.AnnotationNodeRecord]
	_, staying := node.Annotations[maintenance.AnnotationStatus]
	withPods := engaged && staying && maintenance.PhaseOf(node) != maintenance.PhaseCompleted
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
	p, err := plan.Decide(snapshot)
	if err == nil {
		c.Memory.Reserve(p.Actions, snapshot.Now)
		c.Memory.SetWaiting(snapshot.Name, p.Waiting)
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

// admissionTries bounds how often a decision is made anew because another decider
// was faster; more than a handful of deciders do not exist.
const admissionTries = 10

// admit decides about a request, and carries the decision out.
func (c *Controller) admit(ctx context.Context, name string) error {
	if !c.admitting.TryLock() {
		// Each decision takes a few requests; a worker is not parked for them.
		c.Nodes.EnqueueAfter(name, admitAgain)
		return nil
	}
	p, node, err := func() (*plan.Plan, *corev1.Node, error) {
		defer c.admitting.Unlock()
		return c.grant(ctx, name)
	}()
	if err != nil || node == nil {
		return err
	}
	if err := c.carryOut(ctx, node, p); err != nil {
		return err
	}
	c.Observer.Decided(p)
	return nil
}

// admitAgain is when a request is looked at again while another one is decided about.
const admitAgain = 20 * time.Millisecond

// grant decides about a request; see execute.Ledger for why two never both pass a limit
// of one. Within this process one decides after the other: each that is overtaken
// would read all nodes anew. The node is nil when there is nothing to carry out.
func (c *Controller) grant(ctx context.Context, name string) (*plan.Plan, *corev1.Node, error) {
	for range admissionTries {
		page, err := c.Ledger.Read(ctx)
		if err != nil {
			return nil, nil, err
		}
		snapshot, err := c.Gatherer.Live(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		snapshot.Granted = c.prune(page, snapshot)
		p, err := plan.Admit(snapshot)
		if err != nil || p.Face == nil {
			return nil, nil, err
		}
		if record := p.Face.Record; record != nil && page.Grants[name].ID != record.ID {
			page.Grants[name] = execute.Grant{UID: snapshot.Node.UID, ID: record.ID}
			if err := c.Ledger.Write(ctx, page); apierrors.IsConflict(err) {
				continue
			} else if err != nil {
				return nil, nil, err
			}
		}
		return p, snapshot.Node, nil
	}
	return nil, nil, fmt.Errorf("node %s: admission was overtaken %d times", name, admissionTries)
}

// prune drops the grants that the nodes show by now, or that their requests no longer
// stand behind, and returns the nodes that the rest counts as engaged. A grant of the
// very request that is decided about is left by a manager that died before the node
// could show it: whoever decided since has counted it, so it can be used.
func (c *Controller) prune(page *execute.Page, snapshot *plan.Snapshot) map[string]bool {
	pending := map[string]execute.Grant{}
	for _, node := range snapshot.Nodes {
		if !c.Words.Engaged(node) && c.Words.Request(node).Wanted {
			pending[node.Name] = execute.Grant{UID: node.UID, ID: node.Annotations[maintenance.AnnotationRequestID]}
		}
	}
	granted := map[string]bool{}
	for name, grant := range page.Grants {
		if pending[name] != grant {
			delete(page.Grants, name)
			continue
		}
		granted[name] = name != snapshot.Name
	}
	return granted
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
