package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// world is a small cluster in memory. Its KubeVirt does, one small step at a time, what
// virt-controller and virt-handler do; its executor applies actions at once. Nothing in
// it decides about maintenance.
type world struct {
	now        time.Time
	words      maintenance.Vocabulary
	nodes      map[string]*corev1.Node
	vms        map[string]*kubevirtv1.VirtualMachine
	vmis       map[string]*kubevirtv1.VirtualMachineInstance
	migrations map[string]*kubevirtv1.VirtualMachineInstanceMigration
	attempts   map[types.UID]Attempt
	serial     int

	// What the invariants compare with.
	cordonedByUser map[string]bool
	stops, starts  map[string]int
	// forced are the VMs that force stopped: they stay off.
	forced     map[string]bool
	violations []string
}

func newWorld() *world {
	return &world{
		now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), nodes: map[string]*corev1.Node{}, vms: map[string]*kubevirtv1.VirtualMachine{},
		vmis: map[string]*kubevirtv1.VirtualMachineInstance{}, migrations: map[string]*kubevirtv1.VirtualMachineInstanceMigration{},
		attempts: map[types.UID]Attempt{}, cordonedByUser: map[string]bool{}, stops: map[string]int{}, starts: map[string]int{}, forced: map[string]bool{},
	}
}

func (w *world) uid() types.UID {
	w.serial++
	return types.UID(fmt.Sprintf("uid-%d", w.serial))
}

func (w *world) violated(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

func (w *world) addNode(name string, member bool) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: w.uid(), Labels: map[string]string{kubevirtv1.NodeSchedulable: "true"}, Annotations: map[string]string{}}}
	if member {
		node.Labels["node-role.kubernetes.io/control-plane"] = "true"
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.nodes[name] = node
	return node
}

func (w *world) addVM(name, node, strategy string, run kubevirtv1.VirtualMachineRunStrategy) *kubevirtv1.VirtualMachine {
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: w.uid(), Labels: map[string]string{}, Annotations: map[string]string{}}}
	if strategy != "" {
		vm.Labels[maintenance.LabelStrategy] = strategy
	}
	vm.Spec.RunStrategy = &run
	vm.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{}
	vm.Status.RunStrategy = run
	w.vms[name] = vm
	w.boot(vm, node)
	return vm
}

// boot makes the VMI of a VM, running on a node.
func (w *world) boot(vm *kubevirtv1.VirtualMachine, node string) {
	strategy := kubevirtv1.EvictionStrategyLiveMigrate
	controller := true
	w.vmis[vm.Name] = &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: vm.Name, Namespace: "ns", UID: w.uid(), OwnerReferences: []metav1.OwnerReference{{Kind: "VirtualMachine", Name: vm.Name, Controller: &controller}}},
		Spec:       kubevirtv1.VirtualMachineInstanceSpec{EvictionStrategy: &strategy},
		Status: kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Running, NodeName: node, Conditions: []kubevirtv1.VirtualMachineInstanceCondition{
			{Type: kubevirtv1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionTrue},
		}},
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// snapshot observes a node as gather does.
func (w *world) snapshot(name string) *Snapshot {
	s := &Snapshot{Now: w.now, Name: name, ID: string(w.uid()), PodsKnown: true, Attempts: maps.Clone(w.attempts), KubeVirt: KubeVirt{MigrationsPerCluster: 5, MigrationsPerNode: 2, DrainTaint: maintenance.DefaultDrainTaint}, Config: Config{Words: w.words}}
	for _, n := range sorted(w.nodes) {
		node := w.nodes[n].DeepCopy()
		s.Nodes = append(s.Nodes, node)
		if n == name {
			s.Node = node
		}
	}
	for _, v := range sorted(w.vmis) {
		vmi := w.vmis[v]
		instance := Instance{VMI: vmi.DeepCopy(), VM: w.vms[v].DeepCopy()}
		for _, m := range sorted(w.migrations) {
			if w.migrations[m].Spec.VMIName == v {
				instance.Migrations = append(instance.Migrations, w.migrations[m].DeepCopy())
			}
		}
		slices.SortStableFunc(instance.Migrations, func(a, b *kubevirtv1.VirtualMachineInstanceMigration) int {
			return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
		})
		busy := instance.migration() != nil || (vmi.Status.EvacuationNodeName == vmi.Status.NodeName)
		if busy {
			s.Migrations.Cluster++
			if vmi.Status.NodeName == name {
				s.Migrations.Node++
			}
		}
		if vmi.Status.NodeName == name {
			instance.Launchers = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "pod-" + vmi.UID, Namespace: "ns", Name: "virt-launcher-" + v}, Spec: corev1.PodSpec{NodeName: name}}}
			s.Instances = append(s.Instances, instance)
		}
	}
	for _, v := range sorted(w.vms) {
		if stopped := w.stoppedVM(v); stopped != nil && stopped.Record.Node == name {
			s.Stopped = append(s.Stopped, *stopped)
		}
	}
	return s
}

func (w *world) stoppedVM(name string) *StoppedVM {
	vm := w.vms[name].DeepCopy()
	record, err := maintenance.VMRecordOf(vm)
	if err != nil || record == nil {
		return nil
	}
	stopped := &StoppedVM{VM: vm, Record: record}
	if vmi := w.vmis[name]; vmi != nil {
		stopped.VMI = vmi.DeepCopy()
	}
	return stopped
}

// pass is a pass of the controller over a node.
func (w *world) pass(name string) {
	node := w.nodes[name]
	if node == nil {
		return
	}
	p, err := Decide(w.snapshot(name))
	if err != nil {
		w.violated("node %s: %v", name, err)
		return
	}
	if p.Admit {
		if p, err = Admit(w.snapshot(name)); err != nil {
			w.violated("node %s: %v", name, err)
			return
		}
		if p.Face != nil && p.Face.Record != nil {
			w.checkQuorum(name)
		}
	}
	engaged := node.Annotations[maintenance.AnnotationNodeRecord] != ""
	if !engaged && len(p.Actions) > 0 {
		w.violated("node %s is out of maintenance and %d actions are taken, the first %T", name, len(p.Actions), p.Actions[0])
	}
	for _, action := range p.Actions {
		w.apply(node, action)
	}
	if p.Face != nil {
		w.show(node, p.Face)
	}
}

// passVM is a pass over a VM that was stopped.
func (w *world) passVM(name string) {
	stopped := w.stoppedVM(name)
	if stopped == nil {
		return
	}
	p, err := DecideVM(w.snapshot(stopped.Record.Node), stopped)
	if err != nil {
		w.violated("VM %s: %v", name, err)
		return
	}
	for _, action := range p.Actions {
		w.apply(nil, action)
	}
}

func (w *world) show(node *corev1.Node, face *Face) {
	node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == maintenance.ConditionType })
	if face.Phase != maintenance.PhaseNone {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: maintenance.ConditionType, Status: face.Status, Reason: string(face.Phase), Message: face.Message})
	}
	set := func(key, value string) {
		delete(node.Annotations, key)
		if value != "" {
			node.Annotations[key] = value
		}
	}
	set(maintenance.AnnotationStatus, face.MaintainStatus)
	record := ""
	if face.Record != nil {
		record = face.Record.Encode()
	}
	set(maintenance.AnnotationNodeRecord, record)
	set(maintenance.AnnotationRequestID, face.RequestID)
	if face.Consume {
		for _, key := range maintenance.RequestAnnotations {
			delete(node.Annotations, key)
		}
	}
}

// checkQuorum counts independently of the plan.
func (w *world) checkQuorum(target string) {
	if !quorumMember(w.nodes[target]) || !maintenance.NodeReady(w.nodes[target]) {
		return
	}
	var members, left int
	for name, node := range w.nodes {
		if !quorumMember(node) {
			continue
		}
		members++
		if name != target && maintenance.NodeReady(node) && node.Annotations[maintenance.AnnotationStatus] == "" {
			left++
		}
	}
	if left < members/2+1 {
		w.violated("node %s was admitted and %d of %d members are left", target, left, members)
	}
}

func (w *world) apply(node *corev1.Node, action Action) {
	switch a := action.(type) {
	case Cordon:
		node.Spec.Unschedulable = true
		node.Annotations[maintenance.AnnotationNodeRecord] = a.Record.Encode()
	case Uncordon:
		if w.cordonedByUser[node.Name] {
			w.violated("node %s was cordoned before and is uncordoned", node.Name)
		}
		node.Spec.Unschedulable = false
	case Evict:
		w.attempts[a.Pod.UID] = Attempt{Count: w.attempts[a.Pod.UID].Count + 1, Last: w.now, Code: 429}
		vmi := w.vmis[a.VMI.Name]
		if vmi != nil && vmi.UID == a.VMI.UID {
			vmi.Status.EvacuationNodeName = vmi.Status.NodeName
		}
	case Withdraw:
		if vmi := w.vmis[a.VMI.Name]; vmi != nil && vmi.UID == a.VMI.UID {
			vmi.Status.EvacuationNodeName = ""
		}
	case DeleteMigration:
		if m := w.migrations[a.Migration.Name]; m != nil && m.Status.Phase != kubevirtv1.MigrationRunning {
			m.Status.Phase = kubevirtv1.MigrationFailed
		}
	case Halt:
		w.halt(a)
	case Start:
		w.start(a)
	case CallStart:
		if vm := w.vms[a.VM.Name]; w.vmis[vm.Name] == nil {
			w.place(vm)
		}
	case Forget:
		vm := w.vms[a.VM.Name]
		delete(vm.Annotations, maintenance.AnnotationMarker)
		delete(vm.Annotations, maintenance.AnnotationVMRecord)
	default:
		w.violated("action %T has no place in this world", action)
	}
}

func (w *world) halt(a Halt) {
	vm := w.vms[a.VM.Name]
	strategy, _, _ := maintenance.StrategyOf(vm.Labels)
	if !strategy.Stops() && a.Record.Source != maintenance.SourceForce {
		w.violated("VM %s moves and is stopped", vm.Name)
	}
	for _, m := range w.migrations {
		if m.Spec.VMIName == vm.Name && !m.IsFinal() {
			w.violated("VM %s is stopped during migration %s", vm.Name, m.Name)
		}
	}
	w.stops[vm.Name]++
	w.forced[vm.Name] = w.forced[vm.Name] || a.Record.Restart == maintenance.RestartNever
	off := kubevirtv1.RunStrategyHalted
	vm.Spec.RunStrategy = &off
	vm.Annotations[maintenance.AnnotationVMRecord] = a.Record.Encode()
	if a.Record.Restart != maintenance.RestartNever {
		vm.Annotations[maintenance.AnnotationMarker] = a.Record.Node
	}
}

func (w *world) start(a Start) {
	vm := w.vms[a.VM.Name]
	switch {
	case w.vmis[vm.Name] != nil:
		w.violated("VM %s is started while its VMI exists", vm.Name)
	case !halted(vm):
		w.violated("VM %s is started while it is not halted", vm.Name)
	case vm.Status.RunStrategy != kubevirtv1.RunStrategyHalted:
		w.violated("VM %s is started before KubeVirt saw the stop", vm.Name)
	}
	w.starts[vm.Name]++
	if w.starts[vm.Name] > w.stops[vm.Name] {
		w.violated("VM %s is started %d times after %d stops", vm.Name, w.starts[vm.Name], w.stops[vm.Name])
	}
	strategy := kubevirtv1.VirtualMachineRunStrategy(a.Record.RunStrategy)
	vm.Spec.RunStrategy = &strategy
	vm.Annotations[maintenance.AnnotationVMRecord] = a.Record.Encode()
}

func (w *world) forcedOff(vm string) bool { return w.forced[vm] }
