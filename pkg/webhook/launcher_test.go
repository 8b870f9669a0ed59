package webhook

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// stopped is a VM that Drydock stopped on node n1.
func stopped(change ...func(*kubevirtv1.VirtualMachine, *maintenance.VMRecord)) *kubevirtv1.VirtualMachine {
	halted := kubevirtv1.RunStrategyHalted
	record := &maintenance.VMRecord{ID: "m", Node: "n1", NodeUID: "u1", Restart: maintenance.RestartAfterDisable, Source: maintenance.SourceLabel, RunStrategy: "Always"}
	vm := &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a", UID: "vm",
			Labels:      map[string]string{maintenance.LabelStrategy: string(maintenance.StrategyRestartAfterDisable)},
			Annotations: map[string]string{maintenance.AnnotationMarker: "n1"},
		},
		Spec: kubevirtv1.VirtualMachineSpec{RunStrategy: &halted},
	}
	for _, c := range change {
		c(vm, record)
	}
	vm.Annotations[maintenance.AnnotationVMRecord] = record.Encode()
	return vm
}

func starting(vm *kubevirtv1.VirtualMachine, record *maintenance.VMRecord) {
	always := kubevirtv1.RunStrategyAlways
	vm.Spec.RunStrategy, record.Starting = &always, true
}

func afterEnable(vm *kubevirtv1.VirtualMachine, record *maintenance.VMRecord) {
	vm.Labels[maintenance.LabelStrategy], record.Restart = string(maintenance.StrategyRestartAfterEnable), maintenance.RestartAfterEnable
}

// consented has a VM that its eviction strategy let be stopped, whatever its label.
func consented(vm *kubevirtv1.VirtualMachine, record *maintenance.VMRecord) {
	vm.Labels[maintenance.LabelStrategy] = string(maintenance.StrategyMigrate)
	record.Restart, record.Source = maintenance.RestartAfterEnable, maintenance.SourceEvictionStrategy
}

// forgotten is a VM that has lost its marker.
func forgotten(vm *kubevirtv1.VirtualMachine) *kubevirtv1.VirtualMachine {
	vm = vm.DeepCopy()
	delete(vm.Annotations, maintenance.AnnotationMarker)
	delete(vm.Annotations, maintenance.AnnotationVMRecord)
	return vm
}

func TestAVMIsAtHomeWhereItWasStopped(t *testing.T) {
	running := forgotten(stopped(starting))
	running.Status.Ready = true
	halted := forgotten(stopped())
	another := forgotten(stopped(starting))
	another.UID = "vm-2"
	for name, test := range map[string]struct {
		history []*kubevirtv1.VirtualMachine
		want    bool
	}{
		"it waits":            {history: []*kubevirtv1.VirtualMachine{stopped()}, want: true},
		"it is being started": {history: []*kubevirtv1.VirtualMachine{stopped(), stopped(starting)}, want: true},
		"its VMI is there, so its marker is gone": {history: []*kubevirtv1.VirtualMachine{stopped(starting), forgotten(stopped(starting))}, want: true},
		"it runs":                      {history: []*kubevirtv1.VirtualMachine{stopped(starting), forgotten(stopped(starting)), running}},
		"it was stopped again":         {history: []*kubevirtv1.VirtualMachine{stopped(starting), halted}},
		"somebody else started it":     {history: []*kubevirtv1.VirtualMachine{stopped(), forgotten(stopped(starting))}},
		"another VM has its name":      {history: []*kubevirtv1.VirtualMachine{stopped(starting), another}},
		"nothing was seen of its stop": {history: []*kubevirtv1.VirtualMachine{forgotten(stopped(starting))}},
		"it may restart elsewhere":     {want: true, history: []*kubevirtv1.VirtualMachine{stopped(starting, afterEnable)}},
		"its label asks for no restart any more": {history: []*kubevirtv1.VirtualMachine{stopped(func(vm *kubevirtv1.VirtualMachine, _ *maintenance.VMRecord) {
			vm.Labels[maintenance.LabelStrategy] = string(maintenance.StrategyShutdown)
		})}},
		"it was stopped by force": {history: []*kubevirtv1.VirtualMachine{stopped(func(_ *kubevirtv1.VirtualMachine, r *maintenance.VMRecord) {
			r.Restart, r.Source = maintenance.RestartNever, maintenance.SourceForce
		})}},
		"its label was changed to AfterDisable": {want: true, history: []*kubevirtv1.VirtualMachine{stopped(func(_ *kubevirtv1.VirtualMachine, r *maintenance.VMRecord) {
			r.Restart = maintenance.RestartAfterEnable
		})}},
		"its label is not what the stop rests on": {want: true, history: []*kubevirtv1.VirtualMachine{stopped(func(vm *kubevirtv1.VirtualMachine, r *maintenance.VMRecord) {
			vm.Labels[maintenance.LabelStrategy], r.Source = "Shutdown", maintenance.SourceForce
		})}},
		"its marker names another node": {history: []*kubevirtv1.VirtualMachine{stopped(func(vm *kubevirtv1.VirtualMachine, _ *maintenance.VMRecord) {
			vm.Annotations[maintenance.AnnotationMarker] = "n2"
		})}},
		"its marker is not Drydock's": {history: []*kubevirtv1.VirtualMachine{func() *kubevirtv1.VirtualMachine {
			vm := stopped(starting)
			delete(vm.Annotations, maintenance.AnnotationVMRecord)
			return vm
		}()}},
	} {
		t.Run(name, func(t *testing.T) {
			homes := NewHomes()
			for _, vm := range test.history {
				homes.Observe(vm)
			}
			home, ok := homes.Of("ns", "a")
			if ok != test.want || ok && (home.Node != "n1" || home.UID != "u1") {
				t.Errorf("its home is %+v, %t", home, ok)
			}
			homes.Gone(test.history[0])
			if _, ok := homes.Of("ns", "a"); ok {
				t.Error("a VM that was deleted has a home")
			}
		})
	}
}

// A VM comes back when its restart follows the node's leaving, whatever it had waited for.
func TestAVMComesBackWhenItsNodeIsLeft(t *testing.T) {
	at := func(id, status string) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", Annotations: map[string]string{}}}
		if id != "" {
			node.Annotations[maintenance.AnnotationNodeRecord] = (&maintenance.NodeRecord{ID: id, Cordoned: true}).Encode()
		}
		if status != "" {
			node.Annotations[maintenance.AnnotationStatus] = status
		}
		return node
	}
	unreadable := at("", maintenance.StatusRunning)
	unreadable.Annotations[maintenance.AnnotationNodeRecord] = "{"
	another := at("", "")
	another.UID = "u2"
	type change = func(*kubevirtv1.VirtualMachine, *maintenance.VMRecord)
	for name, test := range map[string]struct {
		node *corev1.Node
		// early are VMs that may be started before their node is left.
		early, late bool
	}{
		"emptied":                            {node: at("m", maintenance.StatusRunning), late: true},
		"emptied, beside Harvester":          {node: at("m", maintenance.StatusDraining), late: true},
		"completed":                          {node: at("m", maintenance.StatusCompleted), late: true},
		"being left":                         {node: at("m", ""), early: true, late: true},
		"out of maintenance":                 {node: at("", ""), early: true, late: true},
		"in the next maintenance":            {node: at("m2", maintenance.StatusRunning), early: true, late: true},
		"in one of Harvester's":              {node: at("", maintenance.StatusRunning), early: true, late: true},
		"with a record that nobody can read": {node: unreadable, late: true},
		"a new one of its name":              {node: another},
	} {
		for kind, vm := range map[string]struct {
			change change
			want   bool
		}{
			"AfterEnable": {afterEnable, test.early}, "consent": {consented, test.early},
			"AfterDisable": {func(*kubevirtv1.VirtualMachine, *maintenance.VMRecord) {}, test.late},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				homes := NewHomes()
				homes.Observe(stopped(vm.change, starting))
				home, ok := homes.Of("ns", "a")
				if got := ok && home.calls(test.node); got != vm.want {
					t.Errorf("it comes back: %t, want %t", got, vm.want)
				}
			})
		}
	}
}

func TestALauncherPrefersItsVMsHome(t *testing.T) {
	const (
		owner    = `"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"b"},{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","name":"a","controller":true}]`
		term     = `{"weight":100,"preference":{"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"In","values":["host-1"]}]}}`
		other    = `{"weight":1,"preference":{"matchExpressions":[{"key":"x","operator":"Exists"}]}}`
		required = `"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"y","operator":"Exists"}]}]}`
		list     = `"preferredDuringSchedulingIgnoredDuringExecution"`
	)
	with := func(meta, spec string) string { return `{"metadata":{` + meta + `},"spec":{` + spec + `}}` }
	nodes := roster{
		{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", Labels: map[string]string{corev1.LabelHostname: "host-1"}}},
	}
	for name, test := range map[string]struct {
		pod, want string
		nodes     roster
	}{
		"no affinity":      {pod: with(owner, ``), want: with(owner, `"affinity":{"nodeAffinity":{`+list+`:[`+term+`]}}`)},
		"affinity null":    {pod: with(owner, `"affinity":null`), want: with(owner, `"affinity":{"nodeAffinity":{`+list+`:[`+term+`]}}`)},
		"pod affinity":     {pod: with(owner, `"affinity":{"podAffinity":{}}`), want: with(owner, `"affinity":{"podAffinity":{},"nodeAffinity":{`+list+`:[`+term+`]}}`)},
		"a required one":   {pod: with(owner, `"affinity":{"nodeAffinity":{`+required+`}}`), want: with(owner, `"affinity":{"nodeAffinity":{`+required+`,`+list+`:[`+term+`]}}`)},
		"a preferred one":  {pod: with(owner, `"affinity":{"nodeAffinity":{`+list+`:[`+other+`]}}`), want: with(owner, `"affinity":{"nodeAffinity":{`+list+`:[`+other+`,`+term+`]}}`)},
		"an empty list":    {pod: with(owner, `"affinity":{"nodeAffinity":{`+list+`:[]}}`), want: with(owner, `"affinity":{"nodeAffinity":{`+list+`:[`+term+`]}}`)},
		"named by a label": {pod: with(`"labels":{"vm.kubevirt.io/name":"a"}`, ``), want: with(`"labels":{"vm.kubevirt.io/name":"a"}`, `"affinity":{"nodeAffinity":{`+list+`:[`+term+`]}}`)},
		"the owner is more than a label": {
			pod:  with(`"labels":{"vm.kubevirt.io/name":"a"},"ownerReferences":[{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","name":"b","controller":true}]`, ``),
			want: with(`"labels":{"vm.kubevirt.io/name":"a"},"ownerReferences":[{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","name":"b","controller":true}]`, ``)},
		"nobody's":         {pod: with(``, ``), want: with(``, ``)},
		"broken":           {pod: `{"metadata":7}`, want: `{"metadata":7}`},
		"broken affinity":  {pod: with(owner, `"affinity":7`), want: with(owner, `"affinity":7`)},
		"the node is gone": {nodes: roster{}, pod: with(owner, ``), want: with(owner, ``)},
		"a new node":       {nodes: roster{{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u2", Labels: nodes[0].Labels}}}, pod: with(owner, ``), want: with(owner, ``)},
		"a nameless node":  {nodes: roster{{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}}}, pod: with(owner, ``), want: with(owner, ``)},
	} {
		t.Run(name, func(t *testing.T) {
			if test.nodes == nil {
				test.nodes = nodes
			}
			homes := NewHomes()
			homes.Observe(stopped(starting))
			response := review{path: PathMutateLaunchers, now: test.pod}.send(t, handler(maintenance.Plain, test.nodes, homes))
			if got := patched(t, test.pod, response); !sameJSON(t, got, test.want) {
				t.Errorf("stored as %s, want %s", got, test.want)
			}
		})
	}
}

func TestVMsAreFollowedWhilePodsAreMade(t *testing.T) {
	homes := NewHomes()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 1000 {
			vm := stopped(starting)
			vm.UID = types.UID(rune('a' + n%26))
			homes.Observe(vm)
		}
	}()
	for range 1000 {
		homes.Of("ns", "a")
	}
	<-done
}
