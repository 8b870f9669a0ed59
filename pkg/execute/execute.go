package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// Nodes patches nodes.
type Nodes interface {
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Node, error)
}

// Machines stops, starts and forgets VMs.
type Machines interface {
	Halt(ctx context.Context, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, record *maintenance.VMRecord) error
	Start(ctx context.Context, vm *kubevirtv1.VirtualMachine, record *maintenance.VMRecord) error
	Forget(ctx context.Context, vm *kubevirtv1.VirtualMachine) error
}

// Movers moves VMIs and takes moves back.
type Movers interface {
	Migrate(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, id string) error
	DeleteMigration(ctx context.Context, m *kubevirtv1.VirtualMachineInstanceMigration) error
	Withdraw(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, node string) error
}

// Subresources are KubeVirt's own verbs.
type Subresources interface {
	CallStart(ctx context.Context, vm *kubevirtv1.VirtualMachine) error
	DeleteVMI(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) error
}

// Evictor asks for one eviction. An answer that says no is a code, not an error.
type Evictor interface {
	Evict(ctx context.Context, pod *corev1.Pod) (code int, message string, err error)
}

// Observer hears of what was done, to count it.
type Observer interface {
	// Acted hears of an action and of how it ended.
	Acted(action plan.Action, err error)
	// Evicted hears of the answer to an eviction, of a launcher or another pod; 0 for none.
	Evicted(launcher bool, code int)
	// Turned hears of a change of phase that was written, with the node as it was before.
	Turned(node *corev1.Node, face *plan.Face)
}

// Options are what an Executor acts through.
type Options struct {
	Nodes        Nodes
	Machines     Machines
	Movers       Movers
	Subresources Subresources
	Evictor      Evictor
	Memory       *Memory
	// Events takes what is told of VMs and nodes, but for the changes of a node's phase:
	// Transitions takes those.
	Events      record.EventRecorder
	Transitions Transitions
	Observer    Observer
	Clock       clock.PassiveClock
	Log         logrus.FieldLogger
}

// Executor carries out plans. Some of what it logs is worded as in the test plan of
// Harvester's enhancement on maintenance mode strategies, which looks for those lines.
type Executor struct {
	nodes        Nodes
	machines     Machines
	movers       Movers
	subresources Subresources
	evictor      Evictor
	memory       *Memory
	events       record.EventRecorder
	transitions  Transitions
	observer     Observer
	clock        clock.PassiveClock
	log          logrus.FieldLogger
}

// New returns an Executor.
func New(o Options) *Executor {
	return &Executor{
		nodes: o.Nodes, machines: o.Machines, movers: o.Movers, subresources: o.Subresources, evictor: o.Evictor,
		memory: o.Memory, events: o.Events, transitions: o.Transitions, observer: o.Observer, clock: o.Clock, log: o.Log,
	}
}

// Node carries out the plan of a node. It returns after how long the node should be
// looked at again, 0 for not before the next event. When an action fails that the
// rest relies on, what follows is not done, and nothing of the face changes but that the
// message says so; other failures are named in the face and returned once it is.
func (e *Executor) Node(ctx context.Context, node *corev1.Node, p *plan.Plan) (time.Duration, error) {
	var failures []error
	for rest := p.Actions; len(rest) > 0; {
		var batch []plan.Action
		batch, rest = nextBatch(rest)
		updated, errs := e.sideBySide(ctx, node, batch)
		if updated != nil {
			node = updated
		}
		for n, err := range errs {
			if err == nil {
				continue
			}
			failures = append(failures, err)
			if essential(batch[n]) || (p.Face != nil && p.Face.Record == nil && !aboutStopped(batch[n])) {
				wait, err := e.showFailures(ctx, node, failures)
				return sooner(p.Wake, wait), errors.Join(append(failures, err)...)
			}
		}
	}
	wake, now := p.Wake, e.clock.Now()
	if p.Face != nil {
		e.tellLeft(ctx, node, p, now)
		wait, err := e.show(ctx, node, withFailures(p.Face, failures), slices.ContainsFunc(p.Events, shows), now)
		if err != nil {
			return wake, errors.Join(append(failures, err)...)
		}
		wake = sooner(wake, wait)
		if p.Face.Phase != maintenance.PhaseOf(node) {
			e.observer.Turned(node, p.Face)
		}
	}
	e.tellRest(ctx, node, p, now)
	return wake, errors.Join(failures...)
}

// ofPhase reports an event that stands for a change of phase.
func ofPhase(event plan.Event) bool {
	return event.VM == nil && event.VMI == nil && event.Once == ""
}

// tellLeft tells that a node leaves maintenance, before that is written: afterwards nothing
// on the node would remind a successor of it. The name follows from what is left, so that
// whoever repeats the last step does not tell it twice.
func (e *Executor) tellLeft(ctx context.Context, node *corev1.Node, p *plan.Plan, now time.Time) {
	left := maintenance.Condition(node)
	if p.Face.Phase != maintenance.PhaseNone || left == nil {
		return
	}
	var leaving []plan.Event
	for _, event := range p.Events {
		if ofPhase(event) {
			e.logNode(node, event)
			leaving = append(leaving, event)
		}
	}
	e.tellTransition(ctx, node, maintenance.PhaseNone, left.LastTransitionTime.Time, now, leaving...)
}

// tellRest tells the plan's events after its face, if any, was written at a time. The one that
// stands for a change of phase is told under a name that a successor finds.
func (e *Executor) tellRest(ctx context.Context, node *corev1.Node, p *plan.Plan, now time.Time) {
	changes := p.Face != nil && p.Face.Phase != maintenance.PhaseOf(node)
	var changed []plan.Event
	for _, event := range p.Events {
		switch {
		case !changes || !ofPhase(event):
			e.Tell(node, event)
		case p.Face.Phase != maintenance.PhaseNone:
			e.logNode(node, event)
			changed = append(changed, event)
		}
	}
	if len(changed) > 0 {
		e.tellTransition(ctx, node, p.Face.Phase, now, now, changed...)
	}
}

// shows reports an event that the plan knows as told by the node's message. Those that
// this process remembers can wait for it: one tells of each VM that moves.
func shows(event plan.Event) bool { return event.Once == "" }

// VM carries out the plan of a VM.
func (e *Executor) VM(ctx context.Context, p plan.VMPlan) error {
	for _, action := range p.Actions {
		if _, err := e.act(ctx, nil, action); err != nil {
			return err
		}
	}
	return nil
}

// aboutStopped reports an action about a VM that was stopped, which blocks nobody: the VM's
// own retries go on with it.
func aboutStopped(action plan.Action) bool {
	switch action.(type) {
	case plan.Start, plan.CallStart, plan.Forget, plan.Halt:
		return true
	default:
		return false
	}
}

// withFailures names what failed in the message, but for conflicts, which only mean
// that something has changed and the plan will be made anew.
func withFailures(face *plan.Face, failures []error) *plan.Face {
	if face.Phase == maintenance.PhaseNone {
		return face
	}
	told := *face
	failures = slices.DeleteFunc(slices.Clone(failures), apierrors.IsConflict)
	for _, err := range failures[:min(len(failures), mostFailures)] {
		told.Message += "; " + err.Error()
	}
	if more := len(failures) - mostFailures; more > 0 {
		told.Message += fmt.Sprintf("; and %d more", more)
	}
	return &told
}

// mostFailures is how many of them a message tells: they tend to be the same.
const mostFailures = 3

func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// act does one thing. The node is the plan's, as the actions before have left it.
func (e *Executor) act(ctx context.Context, node *corev1.Node, action plan.Action) (*corev1.Node, error) {
	updated, err := e.carryOut(ctx, node, action)
	e.observer.Acted(action, err)
	return updated, err
}

func (e *Executor) carryOut(ctx context.Context, node *corev1.Node, action plan.Action) (*corev1.Node, error) {
	switch a := action.(type) {
	case plan.Cordon:
		return e.cordon(ctx, node, a.Record)
	case plan.Uncordon:
		return e.uncordon(ctx, node)
	case plan.RemoveTaint:
		return e.removeTaint(ctx, node, a.Key)
	case plan.Evict:
		return nil, e.evict(ctx, a)
	case plan.Migrate:
		return nil, e.migrate(ctx, a)
	case plan.Withdraw:
		e.memory.withdrawn(a.VMI, a.Why, e.clock.Now())
		return nil, e.movers.Withdraw(ctx, a.VMI, a.Node)
	case plan.DeleteMigration:
		e.memory.withdrawn(a.VMI, a.Why, e.clock.Now())
		return nil, e.movers.DeleteMigration(ctx, a.Migration)
	case plan.DeleteVMI:
		return nil, e.deleteVMI(ctx, a)
	case plan.Halt:
		return nil, e.halt(ctx, a)
	case plan.Start:
		return nil, e.start(ctx, a)
	case plan.CallStart:
		e.memory.startCalled(a.VM, e.clock.Now())
		return nil, e.subresources.CallStart(ctx, a.VM)
	case plan.Forget:
		return nil, e.forget(ctx, a)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}
