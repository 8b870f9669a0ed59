package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

func TestWhereAMaintenanceStands(t *testing.T) {
	at := func(record string, phase maintenance.Phase) *corev1.Node {
		node := &corev1.Node{}
		if record != "" {
			node.Annotations = map[string]string{maintenance.AnnotationNodeRecord: record}
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: maintenance.ConditionType, Reason: string(phase), Status: corev1.ConditionTrue}}
		return node
	}
	this, next := (&maintenance.NodeRecord{ID: "m"}).Encode(), (&maintenance.NodeRecord{ID: "m2"}).Encode()
	for name, test := range map[string]struct {
		node  *corev1.Node
		want  Standing
		fails bool
	}{
		"draining":                        {node: at(this, maintenance.PhaseDraining), want: Lasts},
		"its last VMs are on their way":   {node: at(this, maintenance.PhaseEvacuating), want: Lasts},
		"given up":                        {node: at(this, maintenance.PhaseError), want: Lasts},
		"completed":                       {node: at(this, maintenance.PhaseCompleted), want: Emptied},
		"the next one drains":             {node: at(next, maintenance.PhaseDraining), want: Over},
		"the next one is completed":       {node: at(next, maintenance.PhaseCompleted), want: Over},
		"somebody else's, without record": {node: at("", maintenance.PhaseCompleted), want: Over},
		"the node is gone":                {want: Over},
		"a record that cannot be read":    {node: at("{", maintenance.PhaseCompleted), want: Lasts, fails: true},
	} {
		if got, err := StandingOf(test.node, "m"); got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: it is %s, %v; want %s", name, got, err, test.want)
		}
	}
}

// A VM is due from the moment that its maintenance lets it run again until it does. One
// that no other node can host, or whose data is on its own, waits for leaving.
func TestAVMIsDueOnceItMayRunAgain(t *testing.T) {
	const enable, disable, shutdown = "ShutdownAndRestartAfterEnable", "ShutdownAndRestartAfterDisable", "Shutdown"
	pinned := func(_ *world, v *StoppedVM) {
		v.VM.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "w1"}
	}
	relabelled := func(to string) func(*world, *StoppedVM) {
		return func(_ *world, v *StoppedVM) { v.VM.Labels[maintenance.LabelStrategy] = to }
	}
	left := func(w *world, _ *StoppedVM) {
		delete(w.nodes["w1"].Annotations, maintenance.AnnotationNodeRecord)
	}
	running := func(_ *world, v *StoppedVM) {
		always := kubevirtv1.RunStrategyAlways
		v.VM.Spec.RunStrategy = &always
	}
	starting := func(w *world, v *StoppedVM) {
		running(w, v)
		v.Record.Starting = true
	}
	back := func(_ *world, v *StoppedVM) {
		v.VMI = &kubevirtv1.VirtualMachineInstance{}
		v.VMI.UID = "new"
	}
	const draining, completed = maintenance.PhaseDraining, maintenance.PhaseCompleted
	type changes = []func(*world, *StoppedVM)
	for name, test := range map[string]struct {
		strategy string
		phase    maintenance.Phase
		change   changes
		want     bool
	}{
		"AfterEnable, draining":                                {strategy: enable, phase: draining},
		"AfterEnable, completed":                               {strategy: enable, phase: completed, want: true},
		"AfterEnable, completed, no other node can host it":    {strategy: enable, phase: completed, change: changes{pinned}},
		"AfterEnable, left, no other node can host it":         {strategy: enable, phase: completed, change: changes{pinned, left}, want: true},
		"AfterEnable, completed, its last replica is here":     {strategy: enable, phase: completed, change: changes{func(_ *world, v *StoppedVM) { v.Volumes = []Volume{{Name: "v", Healthy: []string{"w1"}}} }}},
		"AfterEnable, completed, another replica is elsewhere": {strategy: enable, phase: completed, change: changes{func(_ *world, v *StoppedVM) { v.Volumes = []Volume{{Name: "v", Healthy: []string{"w1", "cp1"}}} }}, want: true},
		"AfterEnable, completed, its start is held": {strategy: enable, phase: completed, want: true, change: changes{func(_ *world, v *StoppedVM) {
			snapshot := "nightly"
			v.VM.Status.SnapshotInProgress = &snapshot
		}}},
		"AfterEnable, completed, its node does not answer":   {strategy: enable, phase: completed, want: true, change: changes{func(w *world, _ *StoppedVM) { unready(w.nodes["w1"]) }}},
		"AfterEnable, completed, relabelled to AfterDisable": {strategy: enable, phase: completed, change: changes{relabelled(disable)}},
		"AfterDisable, completed":                            {strategy: disable, phase: completed},
		"AfterDisable, completed, relabelled to AfterEnable": {strategy: disable, phase: completed, change: changes{relabelled(enable)}, want: true},
		"AfterDisable, left":                                 {strategy: disable, phase: completed, change: changes{left}, want: true},
		"AfterDisable, left, relabelled to Shutdown":         {strategy: disable, phase: completed, change: changes{left, relabelled(shutdown)}},
		"AfterDisable, its node is gone":                     {strategy: disable, phase: completed, change: changes{func(w *world, _ *StoppedVM) { delete(w.nodes, "w1") }}},
		"AfterDisable, a new node has the name":              {strategy: disable, phase: completed, change: changes{left, func(w *world, _ *StoppedVM) { w.nodes["w1"].UID = "new" }}},
		"consent, completed": {phase: completed, want: true, change: changes{func(_ *world, v *StoppedVM) {
			v.Record.Source, v.Record.Restart = maintenance.SourceEvictionStrategy, maintenance.RestartAfterEnable
		}}},
		"by force, left": {strategy: enable, phase: completed, change: changes{left, func(_ *world, v *StoppedVM) {
			v.Record.Source, v.Record.Restart = maintenance.SourceForce, maintenance.RestartNever
		}}},
		"its start has begun":     {strategy: disable, phase: completed, change: changes{starting}, want: true},
		"it is back":              {strategy: disable, phase: completed, change: changes{starting, back}},
		"somebody else starts it": {strategy: disable, phase: completed, change: changes{left, running}},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(3, 1, false)
			node := w.nodes["w1"]
			engage(node, maintenance.StatusRunning)
			node.Annotations[maintenance.AnnotationNodeRecord] = (&maintenance.NodeRecord{ID: "m"}).Encode()
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: maintenance.ConditionType, Status: corev1.ConditionTrue, Reason: string(test.phase)})
			vm := w.addVM("a", "w1", test.strategy, kubevirtv1.RunStrategyHalted)
			vm.Annotations[maintenance.AnnotationMarker] = "w1"
			delete(w.vmis, "a")
			v := &StoppedVM{VM: vm, Record: &maintenance.VMRecord{ID: "m", Node: "w1", NodeUID: node.UID, Source: maintenance.SourceLabel, Stopped: "old"}}
			v.Record.Restart = map[string]maintenance.RestartPoint{enable: maintenance.RestartAfterEnable, disable: maintenance.RestartAfterDisable}[test.strategy]
			for _, change := range test.change {
				change(w, v)
			}
			p, err := DecideVM(w.snapshot("w1"), v)
			if err != nil || p.Due != test.want {
				t.Errorf("it is due: %t, want %t; the plan is %+v, %v", p.Due, test.want, p, err)
			}
		})
	}
}
