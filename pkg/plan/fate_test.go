package plan

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

func template(strategy kubevirtv1.EvictionStrategy) func(*Instance) {
	return func(i *Instance) { i.VM.Spec.Template.Spec.EvictionStrategy = &strategy }
}

func effective(strategy kubevirtv1.EvictionStrategy) func(*Instance) {
	return func(i *Instance) { i.VMI.Spec.EvictionStrategy = &strategy }
}

func notMigratable(i *Instance) {
	i.VMI.Status.Conditions = []kubevirtv1.VirtualMachineInstanceCondition{{Type: kubevirtv1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionFalse, Reason: "HostDeviceNotLiveMigratable", Message: "a host device"}}
}

func bare(i *Instance) { i.VM, i.VMI.OwnerReferences = nil, nil }

func pinned(i *Instance) {
	i.VM.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "w1"}
}

func leftoverSelector(i *Instance) {
	i.VMI.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "w1"}
	i.Launchers[0].Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "w1"}
}

func cpuModel(i *Instance) {
	i.Launchers[0].Spec.NodeSelector = map[string]string{"cpu-model.node.kubevirt.io/Rare": "true"}
}

func affine(i *Instance) {
	i.VM.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"here"}}}}},
	}}}
}

// The table in the package's documentation.
func TestFates(t *testing.T) {
	const enable, disable, shutdown = "ShutdownAndRestartAfterEnable", "ShutdownAndRestartAfterDisable", "Shutdown"
	none, possible := kubevirtv1.EvictionStrategyNone, kubevirtv1.EvictionStrategyLiveMigrateIfPossible
	for name, test := range map[string]struct {
		strategy string
		change   []func(*Instance)
		config   Config
		unforced Verdict
		forced   Verdict
		means    Means
		reason   Reason
		noPrefix bool
	}{
		"Migrate, can move":                                  {strategy: "Migrate", unforced: Move, forced: Move, means: ByEviction},
		"no label":                                           {unforced: Move, forced: Move, means: ByEviction},
		"an unknown value":                                   {strategy: "shutdown", unforced: Move, forced: Move, means: ByEviction},
		"Migrate, not live-migratable":                       {strategy: "Migrate", change: []func(*Instance){notMigratable}, unforced: Block, forced: StopStayOff, reason: ReasonNotLiveMigratable},
		"Migrate, pinned by node selector":                   {change: []func(*Instance){pinned}, unforced: Block, forced: StopStayOff, reason: ReasonNoTarget},
		"Migrate, pinned by affinity":                        {change: []func(*Instance){affine}, unforced: Block, forced: StopStayOff, reason: ReasonNoTarget},
		"Migrate, CPU model of the launcher":                 {change: []func(*Instance){cpuModel}, unforced: Block, forced: StopStayOff, reason: ReasonNoTarget},
		"Migrate, a selector left over on the VMI":           {change: []func(*Instance){leftoverSelector}, unforced: Move, forced: Move, means: ByEviction},
		"AfterEnable":                                        {strategy: enable, unforced: StopRestartAfterEnable, forced: StopStayOff},
		"AfterEnable, not live-migratable":                   {strategy: enable, change: []func(*Instance){notMigratable}, unforced: StopRestartAfterEnable, forced: StopStayOff},
		"AfterDisable":                                       {strategy: disable, unforced: StopRestartAfterDisable, forced: StopStayOff},
		"Shutdown":                                           {strategy: shutdown, unforced: StopStayOff, forced: StopStayOff},
		"AfterDisable, force honours strategies":             {strategy: disable, config: Config{HonorStrategy: true}, unforced: StopRestartAfterDisable, forced: StopRestartAfterDisable},
		"template None":                                      {change: []func(*Instance){template(none), effective(none)}, unforced: StopRestartAfterEnable, forced: Move, means: ByMigration, reason: ReasonConsent},
		"effective None by the cluster's default":            {change: []func(*Instance){effective(none)}, unforced: Move, forced: Move, means: ByMigration},
		"template IfPossible, can move":                      {change: []func(*Instance){template(possible), effective(possible)}, config: Config{PossibleIsConsent: true}, unforced: Move, forced: Move, means: ByEviction},
		"template IfPossible, cannot move":                   {change: []func(*Instance){template(possible), effective(possible), notMigratable}, config: Config{PossibleIsConsent: true}, unforced: StopRestartAfterEnable, forced: StopStayOff, reason: ReasonConsent},
		"template IfPossible, cannot move, beside Harvester": {change: []func(*Instance){template(possible), effective(possible), notMigratable}, unforced: Block, forced: StopStayOff, reason: ReasonNotLiveMigratable},
		"External":                                           {change: []func(*Instance){effective(kubevirtv1.EvictionStrategyExternal)}, unforced: Move, forced: Move, means: ByExternal},
		"a bare VMI that can move":                           {change: []func(*Instance){bare}, unforced: Move, forced: Move, means: ByEviction},
		"a bare VMI that cannot":                             {change: []func(*Instance){bare, notMigratable}, unforced: Block, forced: Delete, reason: ReasonNotLiveMigratable},
		"finished":                                           {change: []func(*Instance){func(i *Instance) { i.VMI.Status.Phase = kubevirtv1.Succeeded }}, unforced: Await, forced: Await, reason: ReasonFinal},
		"shutting down already":                              {change: []func(*Instance){notMigratable, func(i *Instance) { now := metav1.Now(); i.VMI.DeletionTimestamp = &now }}, unforced: Await, forced: Await, reason: ReasonEnding},
		"on its way here":                                    {change: []func(*Instance){func(i *Instance) { i.VMI.Status.NodeName = "w2" }}, unforced: Await, forced: Await, reason: ReasonArriving},
		"moved away": {change: []func(*Instance){func(i *Instance) {
			i.VMI.Status.NodeName, i.VMI.Status.MigrationState = "w2", &kubevirtv1.VirtualMachineInstanceMigrationState{SourceNode: "w1"}
		}}, unforced: Await, forced: Await, reason: ReasonDeparted},
	} {
		t.Run(name, func(t *testing.T) {
			for _, force := range []bool{false, true} {
				w := cluster(3, 2, false)
				w.nodes["w1"].Labels["zone"] = "here"
				w.addVM("a", "w1", test.strategy, kubevirtv1.RunStrategyAlways)
				snapshot := w.snapshot("w1")
				snapshot.Config = test.config
				for _, change := range test.change {
					change(&snapshot.Instances[0])
				}
				_, fates, err := Check(snapshot, force)
				if err != nil {
					t.Fatal(err)
				}
				got, want := fates[0], test.unforced
				if force {
					want = test.forced
				}
				if got.Verdict != want {
					t.Errorf("force %t: the verdict is %s (%s %s), want %s", force, got.Verdict, got.Reason, got.Message, want)
				}
				if want == Move && test.means != "" && got.Means != test.means {
					t.Errorf("force %t: it is moved by %s, want %s", force, got.Means, test.means)
				}
				if !force && test.reason != "" && got.Reason != test.reason {
					t.Errorf("the reason is %q, want %q", got.Reason, test.reason)
				}
			}
		})
	}
}

func TestALastReplicaKeepsAVMFromMoving(t *testing.T) {
	w := cluster(3, 2, false)
	vm := w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
	w.vmis["a"].Spec.Volumes = []kubevirtv1.Volume{{VolumeSource: kubevirtv1.VolumeSource{PersistentVolumeClaim: &kubevirtv1.PersistentVolumeClaimVolumeSource{PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}}}}}
	vm.Spec.Template.Spec.Volumes = w.vmis["a"].Spec.Volumes
	snapshot := w.snapshot("w1")
	snapshot.Volumes = []Volume{{Name: "pvc-1", Namespace: "ns", Claim: "disk", Healthy: []string{"w1"}}}
	_, fates, err := Check(snapshot, false)
	if err != nil {
		t.Fatal(err)
	}
	if f := fates[0]; f.Verdict != Block || f.Reason != ReasonLastReplica || !strings.Contains(f.Message, "pvc-1") {
		t.Errorf("the fate is %+v, want a block that names the volume", f)
	}
}

// Old stored objects may lack almost everything; none of it may panic.
func TestPoorObjectsDoNotPanic(t *testing.T) {
	w := cluster(3, 1, false)
	snapshot := w.snapshot("w1")
	snapshot.Instances = []Instance{
		{VMI: &kubevirtv1.VirtualMachineInstance{}},
		{VMI: &kubevirtv1.VirtualMachineInstance{}, VM: &kubevirtv1.VirtualMachine{}},
		{VMI: &kubevirtv1.VirtualMachineInstance{Status: kubevirtv1.VirtualMachineInstanceStatus{NodeName: "w1"}}, VM: &kubevirtv1.VirtualMachine{}},
	}
	snapshot.Stopped = []StoppedVM{{VM: &kubevirtv1.VirtualMachine{}, Record: &maintenance.VMRecord{}}}
	snapshot.Pods = []Pod{{Pod: &corev1.Pod{}}}
	for _, record := range []string{"", `{"id":"m"}`} {
		snapshot.Node.Annotations = map[string]string{maintenance.AnnotationRequested: "true", maintenance.AnnotationStatus: "running", maintenance.AnnotationNodeRecord: record}
		if record == "" {
			snapshot.Node.Annotations = map[string]string{maintenance.AnnotationRequested: "true"}
		}
		if _, err := Decide(snapshot); err != nil {
			t.Error(err)
		}
		if _, err := Admit(snapshot); err != nil {
			t.Error(err)
		}
		if _, err := DecideVM(snapshot, &snapshot.Stopped[0]); err != nil {
			t.Error(err)
		}
	}
}

func TestARecordThatCannotBeReadStopsEverything(t *testing.T) {
	w := cluster(3, 1, false)
	w.nodes["w1"].Annotations[maintenance.AnnotationNodeRecord] = "{"
	if p, err := Decide(w.snapshot("w1")); err == nil {
		t.Errorf("the plan is %+v, want an error", p)
	}
}

// Relabelled during its migration, a VM is stopped only once that migration is over:
// KubeVirt would neither finish nor abort the migration of a VMI that is deleted.
func TestAMigrationEndsBeforeAStop(t *testing.T) {
	w := cluster(3, 1, false)
	vm := w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
	w.nodes["w1"].Annotations[maintenance.AnnotationRequested] = "true"
	for range 4 {
		w.pass("w1")
	}
	w.kubevirt("a", false)
	w.kubevirt("a", false)
	if got := w.migrations[sorted(w.migrations)[0]].Status.Phase; got != kubevirtv1.MigrationRunning {
		t.Fatalf("the migration is %s", got)
	}
	vm.Labels[maintenance.LabelStrategy] = "Shutdown"
	for range 3 {
		w.pass("w1")
	}
	if w.stops["a"] != 0 {
		t.Error("the VM was stopped during its migration")
	}
	if c := maintenance.Condition(w.nodes["w1"]); !strings.Contains(c.Message, "ns/a is waiting for migration") {
		t.Errorf("the message is %q, want it to name the VM and what it waits for", c.Message)
	}
	w.kubevirt("a", true)
	for range 3 {
		w.pass("w1")
	}
	if w.stops["a"] != 1 {
		t.Errorf("the VM was stopped %d times, want once; %s", w.stops["a"], w.describe())
	}
	if len(w.violations) > 0 {
		t.Error(w.violations)
	}
}

// Old stored objects may say neither whether they run nor how: such a VM is stopped, and
// its VMI is about to end.
func TestAVMThatSaysNothingOfRunningIsShuttingDown(t *testing.T) {
	for _, strategy := range []string{"", "Shutdown", "ShutdownAndRestartAfterEnable", "ShutdownAndRestartAfterDisable"} {
		for _, force := range []bool{false, true} {
			_, s := underRecord(maintenance.NodeRecord{Forced: force})
			i := &s.Instances[0]
			i.VM.Labels[maintenance.LabelStrategy], i.VM.Spec.RunStrategy, i.VM.Spec.Running = strategy, nil, nil
			p, err := Decide(s)
			if err != nil {
				t.Fatal(err)
			}
			if f := p.VMs[0]; f.Verdict != Await || f.Progress != ShuttingDown || len(p.Actions) > 0 {
				t.Errorf("%q, force %t: the verdict is %s, it is %s, and %v is done", strategy, force, f.Verdict, f.Progress, p.Actions)
			}
		}
	}
}

// Force is right for a VMI without a VM only if what it does there was said before.
func TestAVMIWithoutAVMThatBlocksSaysWhatForceDoes(t *testing.T) {
	const blocked = "cannot be live-migrated: HostDeviceNotLiveMigratable: a host device"
	yes := true
	for name, test := range map[string]struct {
		change func(*Instance)
		want   string
		remedy bool
	}{
		"nobody's": {change: bare, want: "VMI ns/a " + blocked + " and belongs to no VM: it would be lost; force deletes it"},
		"a replica set's": {change: func(i *Instance) {
			bare(i)
			i.VMI.OwnerReferences = []metav1.OwnerReference{{Kind: "Backup", Name: "nightly"}, {Kind: "VirtualMachineInstanceReplicaSet", Name: "farm", Controller: &yes}}
		}, want: "VMI ns/a " + blocked + " and belongs to no VM: it will be re-created elsewhere by VirtualMachineInstanceReplicaSet farm; force deletes it"},
		"a VM's that cannot be found": {change: func(i *Instance) { i.VM, i.OwnerUnknown = nil, true }, want: "VMI ns/a " + blocked + ", and the VM that owns it cannot be found"},
		"a VM's":                      {change: func(*Instance) {}, want: "VM ns/a " + blocked, remedy: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(3, 2, false)
			w.addVM("a", "w1", "", kubevirtv1.RunStrategyAlways)
			s := w.snapshot("w1")
			notMigratable(&s.Instances[0])
			test.change(&s.Instances[0])
			findings, _, err := Check(s, false)
			if err != nil || len(findings) != 1 {
				t.Fatalf("found %+v, %v, want one finding", findings, err)
			}
			if f := findings[0]; f.Message != test.want || (f.Remedy != "") != test.remedy {
				t.Errorf("it says %q with the remedy %q, want %q", f.Message, f.Remedy, test.want)
			}
		})
	}
}
