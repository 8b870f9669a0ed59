package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// VMPlan is what to do about one VM that Drydock stopped.
type VMPlan struct {
	Actions []Action
	// Due is true for a VM that is to run again by now, and does not yet.
	Due bool
	// Waiting says why a VM is not started although its node has been emptied or left, ""
	// otherwise. One that waits for leaving is not due.
	Waiting string
	// Stuck is true when that may last, and the owner should hear of it.
	Stuck bool
	// Wake is when time alone changes the plan; 0 for never.
	Wake time.Duration
}

// DecideVM says what to do about a VM with Drydock's record. The snapshot's subject
// is the node that the record names. It serves the VM's own retries: what is due
// here belongs to nobody's maintenance any more, or to one that is Completed.
func DecideVM(snapshot *Snapshot, v *StoppedVM) (VMPlan, error) {
	s, err := observe(snapshot)
	if err != nil {
		return VMPlan{}, err
	}
	standing, err := StandingOf(s.Node, v.Record.ID)
	if err != nil {
		return VMPlan{}, err
	}
	return s.decideVM(v, standing), nil
}

// ForeignMarker tells of a marker that names a node out of maintenance and stands without
// a record by which Drydock would start the VM, nil when there is none. It is reported and
// never acted on: nobody knows who left it, or what for, and whether the VM should run.
func ForeignMarker(words maintenance.Vocabulary, vm *kubevirtv1.VirtualMachine, node *corev1.Node) *Event {
	marker := vm.Annotations[maintenance.AnnotationMarker]
	record, err := maintenance.VMRecordOf(vm)
	if marker == "" || record != nil || (node != nil && words.Engaged(node)) {
		return nil
	}
	why := "Drydock did not set it"
	if err != nil {
		why = fmt.Sprintf("Drydock cannot read what it wrote beside it (%v)", err)
	}
	return &Event{VM: vm, Reason: EventVMForeign, Once: marker, Warning: true, Message: fmt.Sprintf(
		"metadata.annotations[%s] names node %s, which is not in maintenance, and %s: the VM is left as it is", maintenance.AnnotationMarker, marker, why)}
}

// startStopped starts the VMs of this maintenance that are due, each once: it is over for
// them once the node is left. It returns those that wait, with the reason, which their
// owners are told as well.
func (s *situation) startStopped(p *Plan, standing Standing) (waiting []string) {
	for n := range s.Stopped {
		v := &s.Stopped[n]
		if v.Record.ID != s.record.ID {
			continue
		}
		plan := s.decideVM(v, standing)
		p.do(plan.Actions...)
		if plan.Waiting != "" {
			waiting = append(waiting, fmt.Sprintf("%s/%s (%s)", v.VM.Namespace, v.VM.Name, plan.Waiting))
			p.Events = append(p.Events, StartWaits(v, plan.Waiting))
		}
	}
	return waiting
}

// untilServed is how soon it is looked again at a start that KubeVirt has yet to serve.
const untilServed = time.Second

func (s *situation) decideVM(v *StoppedVM, standing Standing) VMPlan {
	record := v.Record
	switch {
	case v.VM.DeletionTimestamp != nil:
		return VMPlan{}
	case record.Starting:
		return s.starting(v)
	case !halted(v.VM) && restartedByKubeVirt(v.VM) && standing != Over && !startedPaused(v):
		if len(v.VM.Status.StateChangeRequests) > 0 || v.VMI == nil || v.VMI.UID == record.Stopped {
			// Halted now, KubeVirt would serve the request again. Once it is served, the new VMI
			// alone tells what it was.
			return VMPlan{Wake: untilServed}
		}
		// A start request left over from before the stop is not a user.
		return VMPlan{Actions: []Action{Halt{VM: v.VM, VMI: v.VMI, Record: record}}}
	case !halted(v.VM):
		return s.takenOut(v, standing)
	case record.Restart != maintenance.RestartNever && v.VM.Annotations[maintenance.AnnotationMarker] == "":
		return forget(v, EventVMStaysOff, fmt.Sprintf("stays off: its annotation %s was removed", maintenance.AnnotationMarker))
	case s.Node == nil || s.Node.UID != record.NodeUID:
		return forget(v, EventVMStaysOff, fmt.Sprintf("is off: its node %s was removed while in maintenance; start it with: virtctl start -n %s %s", record.Node, v.VM.Namespace, v.VM.Name))
	}
	point := RestartOf(v.VM, record)
	switch {
	case point == maintenance.RestartNever && record.Restart != maintenance.RestartNever:
		return forget(v, EventVMStaysOff, fmt.Sprintf("stays off: its label %s no longer asks for a restart", maintenance.LabelStrategy))
	case point == maintenance.RestartNever && standing == Over:
		return VMPlan{Actions: []Action{Forget{VM: v.VM}}}
	case point == maintenance.RestartNever:
		return VMPlan{}
	case standing == Over:
		return s.start(v)
	case point == maintenance.RestartAfterEnable && standing == Emptied && s.Pending != "":
		return VMPlan{Due: true, Waiting: "it waits until " + s.Pending + " known"}
	case point == maintenance.RestartAfterEnable && standing == Emptied:
		if why := s.cannotStartElsewhere(v); why != "" {
			return VMPlan{Waiting: why, Stuck: true}
		}
		return s.start(v)
	}
	return VMPlan{}
}

// RestartOf says when a VM that Drydock stopped is started again. What a stop by the label
// asked for is asked of the label again, which may have changed since.
func RestartOf(vm *kubevirtv1.VirtualMachine, record *maintenance.VMRecord) maintenance.RestartPoint {
	if record.Source != maintenance.SourceLabel || record.Restart == maintenance.RestartNever {
		return record.Restart
	}
	strategy, _, _ := maintenance.StrategyOf(vm.Labels)
	return strategy.Restart()
}

// forget ends what Drydock has to do with a VM, which its owner hears of.
func forget(v *StoppedVM, why EventReason, message string) VMPlan {
	told := &Event{VM: v.VM, Reason: why, Warning: why == EventVMStaysOff, Message: message}
	return VMPlan{Actions: []Action{Forget{VM: v.VM, Told: told}}}
}

// restartedByKubeVirt reports that KubeVirt's controller, not a person, took a VM out
// of Halted: it does so when it finds a start request on a halted VM.
func restartedByKubeVirt(vm *kubevirtv1.VirtualMachine) bool {
	var latest *time.Time
	var manager string
	for n := range vm.ManagedFields {
		f := &vm.ManagedFields[n]
		if f.Subresource != "" || f.Time == nil || f.FieldsV1 == nil {
			continue
		}
		fields := f.FieldsV1.GetRawString()
		if !strings.Contains(fields, `"f:runStrategy"`) && !strings.Contains(fields, `"f:running"`) {
			continue
		}
		if latest == nil || f.Time.Time.After(*latest) {
			latest, manager = &f.Time.Time, f.Manager
		}
	}
	return strings.HasPrefix(manager, "virt-controller")
}

// takenOut follows a VM that somebody else has taken out of Halted: a person, a tool that
// writes its manifest back, Harvester's Disable handler. That alone starts nothing. While
// the old guest shuts down, KubeVirt takes note of RerunOnFailure and does not start it
// afterwards, and Manual never starts anything. Only a new VMI is a start.
func (s *situation) takenOut(v *StoppedVM, standing Standing) VMPlan {
	strategy := RunStrategyOf(v.VM)
	switch {
	case v.VMI != nil && v.VMI.UID != v.Record.Stopped:
		return forget(v, EventVMStarted, "was started by somebody else; Drydock leaves it alone")
	case v.VMI != nil && v.VMI.DeletionTimestamp == nil && !v.VMI.IsFinal() && v.VM.Status.RunStrategy == strategy:
		return forget(v, EventVMStarted, "was started by somebody else before it was stopped; Drydock leaves it alone")
	case v.VMI != nil:
		return VMPlan{Waiting: "somebody else has asked for its start, and it is still shutting down"}
	case strategy == kubevirtv1.RunStrategyManual && standing != Over:
		// Nobody has asked for its start.
		return VMPlan{}
	case strategy == kubevirtv1.RunStrategyManual && RestartOf(v.VM, v.Record) == maintenance.RestartNever:
		return VMPlan{Actions: []Action{Forget{VM: v.VM}}}
	case strategy == kubevirtv1.RunStrategyManual, strategy == kubevirtv1.RunStrategyRerunOnFailure:
		p := s.starting(v)
		p.Stuck = p.Stuck && v.StartCalls > 0
		return p
	}
	return VMPlan{Waiting: "somebody else has asked for its start, and KubeVirt has not started it yet"}
}

// startedPaused reports that a person asked for a paused start, which KubeVirt serves
// through a start request on the halted VM. It drops the request as soon as the VMI is
// made, which keeps how it was started.
func startedPaused(v *StoppedVM) bool {
	if AsksForPausedStart(v.VM.Status.StateChangeRequests) {
		return true
	}
	return v.VMI != nil && v.VMI.UID != v.Record.Stopped && startsPaused(&v.VMI.Spec) && (v.VM.Spec.Template == nil || !startsPaused(&v.VM.Spec.Template.Spec))
}

// AsksForPausedStart reports that one of the requests that wait on a VM is such a start.
func AsksForPausedStart(requests []kubevirtv1.VirtualMachineStateChangeRequest) bool {
	return slices.ContainsFunc(requests, func(r kubevirtv1.VirtualMachineStateChangeRequest) bool {
		return r.Action == kubevirtv1.StartRequest && r.Data[kubevirtv1.StartRequestDataPausedKey] == kubevirtv1.StartRequestDataPausedTrue
	})
}

func startsPaused(spec *kubevirtv1.VirtualMachineInstanceSpec) bool {
	return spec.StartStrategy != nil && *spec.StartStrategy == kubevirtv1.StartStrategyPaused
}

// cannotStartElsewhere says why an AfterEnable VM must wait for leaving.
func (s *situation) cannotStartElsewhere(v *StoppedVM) string {
	if !s.anyHosts(stoppedPlacement(v)) {
		return "no other node can host it; it is started on leaving"
	}
	for n := range v.Volumes {
		if s.lastHealthyHere(&v.Volumes[n]) {
			return fmt.Sprintf("the last healthy replica of its volume %s is on this node; it is started on leaving", v.Volumes[n].Name)
		}
	}
	return ""
}

// start restores the run strategy once it is certain that nothing runs the VM still.
func (s *situation) start(v *StoppedVM) VMPlan {
	p := VMPlan{Due: true}
	switch {
	case !maintenance.NodeReady(s.Node) && !hasTaint(s.Node, corev1.TaintNodeOutOfService):
		p.Waiting, p.Stuck = fmt.Sprintf("node %s is not Ready and may still run it", s.Name), true
	case v.VMI != nil:
		p.Waiting = "it is still shutting down"
	case len(v.Launchers) > 0:
		// Somebody has removed the VMI from under its guest.
		p.Waiting = "pod " + v.Launchers[0].Name + " of its last run has not ended"
	case v.VM.Status.RunStrategy != kubevirtv1.RunStrategyHalted:
		// KubeVirt starts a RerunOnFailure VM only when it sees the change from Halted.
		p.Waiting = "KubeVirt has not seen the stop yet"
	case len(v.VM.Status.StateChangeRequests) > 0:
		p.Waiting = "KubeVirt is still serving a start or stop request"
	case v.VM.Status.SnapshotInProgress != nil:
		// KubeVirt refuses to start it meanwhile, as it refuses to stop it.
		p.Waiting = "snapshot " + *v.VM.Status.SnapshotInProgress + " is in progress"
	case v.VM.Status.RestoreInProgress != nil:
		p.Waiting = "restore " + *v.VM.Status.RestoreInProgress + " is in progress"
	default:
		record := *v.Record
		record.Starting = true
		p.Actions = []Action{Start{VM: v.VM, Record: &record}}
	}
	return p
}

// starting watches a VM whose run strategy was restored until another VMI exists.
func (s *situation) starting(v *StoppedVM) VMPlan {
	switch {
	case v.VMI != nil && v.VMI.UID != v.Record.Stopped:
		message := "was started again after maintenance of node " + v.Record.Node
		if v.Record.Paused {
			message += "; it was paused before and is not any more"
		}
		return forget(v, EventVMStarted, message)
	case halted(v.VM):
		return forget(v, EventVMStaysOff, "was stopped by somebody else; Drydock leaves it alone")
	}
	strategy := RunStrategyOf(v.VM)
	since := s.Now.Sub(v.LastTry)
	waiting := VMPlan{Due: true, Waiting: "KubeVirt has not started it yet", Stuck: since >= startPatience}
	if !waiting.Stuck {
		waiting.Wake = startPatience - since
	}
	var wait time.Duration
	switch strategy {
	case kubevirtv1.RunStrategyManual:
		// Putting Manual back starts nothing.
	case kubevirtv1.RunStrategyRerunOnFailure:
		wait = startPatience
	default:
		// For the others the start subresource answers 409, and virt-controller starts
		// and retries by itself.
		return waiting
	}
	if v.StartCalls > 0 {
		wait = backoff(v.StartCalls)
	}
	if remaining := wait - since; remaining > 0 {
		waiting.Wake = remaining
		return waiting
	}
	waiting.Actions = []Action{CallStart{VM: v.VM}}
	waiting.Wake = backoff(v.StartCalls + 1)
	return waiting
}

// startPatience is how long KubeVirt gets to start a VM by itself. After that the
// owner hears of it: once the node is left, nothing else tells.
const startPatience = 20 * time.Second
