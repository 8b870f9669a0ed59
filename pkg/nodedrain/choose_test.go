package nodedrain

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// owners are the VMI and the VM of a launcher pod, by its name.
type owners map[string]struct {
	vmi *virtv1.VirtualMachineInstance
	vm  *virtv1.VirtualMachine
}

func (o owners) LauncherOwner(pod *corev1.Pod) (*virtv1.VirtualMachineInstance, *virtv1.VirtualMachine) {
	return o[pod.Name].vmi, o[pod.Name].vm
}

func pod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{}}, Spec: corev1.PodSpec{NodeName: "w1"}}
	p.Status.Phase = corev1.PodRunning
	for _, change := range changes {
		change(p)
	}
	return p
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(name), Controller: &yes}}
	}
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

func mirrored(p *corev1.Pod) {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
}

func scratch(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func deleted(p *corev1.Pod) {
	now := metav1.Now()
	p.DeletionTimestamp = &now
}

func vm(strategy maintenance.Strategy) *virtv1.VirtualMachine {
	return &virtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "vm", Labels: map[string]string{maintenance.LabelStrategy: string(strategy)}}}
}

func newTestChooser(o Owners, daemonSets ...string) (*chooser, *fake.Clientset, *bytes.Buffer) {
	client := fake.NewClientset()
	for _, name := range daemonSets {
		_ = client.Tracker().Add(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
	}
	told, log := &bytes.Buffer{}, logrus.New()
	log.SetOutput(told)
	return newChooser(client, o, log), client, told
}

// As kubectl drain --ignore-daemonsets --delete-emptydir-data --force would, without the
// pods that are somebody's work in progress and those whose fate is their VM's.
func TestWhichPodsOfANodeADrainRemoves(t *testing.T) {
	vmi := &virtv1.VirtualMachineInstance{}
	launcher := labelled(virtv1.AppLabel, "virt-launcher")
	known := owners{
		"moves":               {vmi, vm(maintenance.StrategyMigrate)},
		"shut":                {vmi, vm(maintenance.StrategyShutdown)},
		"bare":                {vmi, nil},
		"finished":            {vmi, vm(maintenance.StrategyMigrate)},
		"shut-without-vmi":    {nil, vm(maintenance.StrategyRestartAfterEnable)},
		"migrate-without-vmi": {nil, vm(maintenance.StrategyMigrate)},
	}
	for sentence, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a pod of a ReplicaSet":                           {pod("web", ownedBy("ReplicaSet", "web")), true},
		"a naked pod with scratch data":                   {pod("naked", scratch), true},
		"a Succeeded pod of a Job":                        {pod("job", ownedBy("Job", "job"), inPhase(corev1.PodSucceeded), scratch), true},
		"a pod that is being deleted is waited for":       {pod("going", ownedBy("ReplicaSet", "web"), deleted), true},
		"a pod of a DaemonSet":                            {pod("agent", ownedBy("DaemonSet", "agent")), false},
		"a pod of a DaemonSet that is gone":               {pod("orphan", ownedBy("DaemonSet", "gone")), true},
		"a pod of a DaemonSet that has ended":             {pod("ended", ownedBy("DaemonSet", "agent"), inPhase(corev1.PodFailed)), true},
		"a static pod":                                    {pod("static", mirrored), false},
		"a CSI attacher":                                  {pod("attacher", ownedBy("ReplicaSet", "a"), labelled("app", "csi-attacher")), false},
		"a CSI provisioner":                               {pod("provisioner", ownedBy("ReplicaSet", "p"), labelled("app", "csi-provisioner")), false},
		"a hot-plug helper":                               {pod("hp-volume", labelled(virtv1.AppLabel, "hotplug-disk")), false},
		"a launcher of a VM that moves":                   {pod("moves", launcher), false},
		"a launcher of a VM that is shut down":            {pod("shut", launcher), false},
		"a launcher of a VMI without VM":                  {pod("bare", launcher), false},
		"a finished launcher whose VMI is there":          {pod("finished", launcher, inPhase(corev1.PodSucceeded)), false},
		"a launcher that lost its VMI, its VM shuts down": {pod("shut-without-vmi", launcher), false},
		"a launcher that lost its VMI, its VM migrates":   {pod("migrate-without-vmi", launcher), true},
		"a launcher that belongs to nobody":               {pod("lost", launcher), true},
	} {
		t.Run(sentence, func(t *testing.T) {
			chooser, _, _ := newTestChooser(known, "agent")
			chosen, err := chooser.choose(t.Context(), "w1", []*corev1.Pod{c.pod})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(chosen) == 1; got != c.want {
				t.Errorf("chosen: %t, want %t", got, c.want)
			}
			if len(chosen) == 1 && chosen[0] != c.pod {
				t.Error("what is chosen is not the pod from the watch")
			}
		})
	}
}

func TestThePodsAreInAStableOrder(t *testing.T) {
	chooser, _, _ := newTestChooser(owners{})
	other := pod("a")
	other.Namespace = "z"
	chosen, err := chooser.choose(t.Context(), "w1", []*corev1.Pod{other, pod("c"), pod("b")})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range chosen {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	if got := strings.Join(names, " "); got != "ns/b ns/c z/a" {
		t.Errorf("the order is %s", got)
	}
}

// A drain that takes hours looks at its pods again and again.
func TestWhatADrainAsksAgain(t *testing.T) {
	chooser, client, told := newTestChooser(owners{"shut": {&virtv1.VirtualMachineInstance{}, vm(maintenance.StrategyShutdown)}}, "agent")
	pods := []*corev1.Pod{
		pod("agent-1", ownedBy("DaemonSet", "agent")), pod("agent-2", ownedBy("DaemonSet", "agent")), pod("orphan", ownedBy("DaemonSet", "gone")),
		pod("shut", labelled(virtv1.AppLabel, "virt-launcher")),
	}
	for range 3 {
		if _, err := chooser.choose(t.Context(), "w1", pods); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	for _, action := range client.Actions() {
		if !action.Matches("get", "daemonsets") {
			t.Errorf("a request that is not for a DaemonSet: %s %s", action.GetVerb(), action.GetResource().Resource)
		}
		asked++
	}
	// The one that is gone may come back, so it is asked for each time.
	if asked != 1+3 {
		t.Errorf("DaemonSets were asked for %d times, want 4", asked)
	}
	const sentence = "migration of pod owned by VM ns/vm is skipped because of the label harvesterhci.io/maintain-mode-strategy"
	if got := strings.Count(told.String(), sentence); got != 1 {
		t.Errorf("that the launcher is skipped was told %d times, want once:\n%s", got, told)
	}
}
