package gather

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// world is everything that a Gatherer asks, and what it was asked, in order.
type world struct {
	asked []string

	cached, live []*corev1.Node
	instances    map[string][]plan.Instance
	stopped      []plan.StoppedVM
	running      map[string]bool
	pods         []*corev1.Pod
	known        bool
	// launchers are on the node, by its watch and by the API server.
	launchers []*corev1.Pod
	exist     map[types.UID]bool
	budgets   []*policyv1.PodDisruptionBudget
	volumes   map[string][]plan.Volume
	policy    string
	fails     string
}

var errBroken = errors.New("broken")

func (w *world) ask(format string, args ...any) error {
	question := fmt.Sprintf(format, args...)
	w.asked = append(w.asked, question)
	if question == w.fails {
		return errBroken
	}
	return nil
}

func (w *world) Instances(node string) ([]plan.Instance, error) {
	return w.instances[node], w.ask("VMIs of %s", node)
}

func (w *world) Stopped(node string) ([]plan.StoppedVM, error) {
	return slices.Clone(w.stopped), w.ask("VMs stopped for %s", node)
}

func (w *world) StoppedVM(vm *virtv1.VirtualMachine) (*plan.StoppedVM, error) {
	for i := range w.stopped {
		if w.stopped[i].VM == vm {
			v := w.stopped[i]
			return &v, nil
		}
	}
	return nil, w.ask("whether %s was stopped", vm.Name)
}

func (w *world) Runs(namespace, name string) bool { return w.running[namespace+"/"+name] }

func (w *world) Config() (plan.KubeVirt, error) {
	return plan.KubeVirt{MigrationsPerNode: 2}, w.ask("KubeVirt's configuration")
}

func (w *world) Slots(node string, sent map[types.NamespacedName]string) (plan.Slots, error) {
	return plan.Slots{Node: len(sent), Cluster: 3}, w.ask("slots of %s", node)
}

func (w *world) Requests() (map[string]corev1.ResourceList, error) {
	return map[string]corev1.ResourceList{"n2": {}}, w.ask("requests of launchers")
}

func (w *world) Pods(_ context.Context, node string) ([]*corev1.Pod, bool, error) {
	return w.pods, w.known, w.ask("pods of %s", node)
}

func (w *world) Launchers(string) []*corev1.Pod { return w.launchers }

func (w *world) Exists(_ context.Context, namespace, name string, uid types.UID) (bool, error) {
	return w.exist[uid], w.ask("whether %s/%s exists", namespace, name)
}

func (w *world) GetPodPodDisruptionBudgets(*corev1.Pod) ([]*policyv1.PodDisruptionBudget, error) {
	if len(w.budgets) == 0 {
		return nil, errors.New("no budget selects the pod")
	}
	return slices.Clone(w.budgets), nil
}

func (w *world) Volumes(node string, claims []types.NamespacedName) ([]plan.Volume, error) {
	return slices.Clone(w.volumes[node]), w.ask("volumes of %q and %v", node, claims)
}

func (w *world) Holds(*corev1.Pod) (string, error) { return w.policy, w.ask("what holds a pod") }

func (w *world) Attempts() map[types.UID]plan.Attempt { return map[types.UID]plan.Attempt{"u": {}} }

func (w *world) Sent(time.Time) map[types.NamespacedName]string {
	return map[types.NamespacedName]string{{Name: "a"}: "n1"}
}

func (w *world) Recall(v *plan.StoppedVM) { _ = w.ask("what is remembered of %s", v.VM.Name) }

type cachedNodes struct{ *world }

func (c cachedNodes) List(labels.Selector) ([]*corev1.Node, error) {
	return c.cached, c.ask("nodes from the cache")
}

type liveNodes struct{ *world }

func (l liveNodes) List(context.Context, metav1.ListOptions) (*corev1.NodeList, error) {
	list := &corev1.NodeList{}
	for _, node := range l.live {
		list.Items = append(list.Items, *node)
	}
	return list, l.ask("nodes from the API server")
}

type livePods struct{ *world }

func (l livePods) List(_ context.Context, opts metav1.ListOptions) (*corev1.PodList, error) {
	list := &corev1.PodList{}
	for _, pod := range l.launchers {
		list.Items = append(list.Items, *pod)
	}
	return list, l.ask("pods from the API server, %s, %s", opts.LabelSelector, opts.FieldSelector)
}

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func (w *world) gatherer() *Gatherer {
	return &Gatherer{
		Machines: w, Runs: w, Platform: w, Nodes: cachedNodes{w}, LiveNodes: liveNodes{w}, LivePods: livePods{w}, VMIs: w, Pods: w, Budgets: w, Memory: w,
		Storage:           func() Storage { return w },
		Pending:           func() string { _ = w.ask("what is pending"); return "volumes are" },
		Upgrade:           func() string { return "v2" },
		Waiting:           func(string) []int { return []int{4} },
		PossibleIsConsent: func() bool { return true },
		Clock:             clocktesting.NewFakePassiveClock(now),
	}
}

func node(name string, phase maintenance.Phase) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	if phase != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: maintenance.ConditionType, Status: corev1.ConditionTrue, Reason: string(phase)}}
	}
	return n
}

func instance(name string, claims ...string) plan.Instance {
	vmi := &virtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	vmi.Spec = specOf(claims...)
	return plan.Instance{VMI: vmi}
}

func specOf(claims ...string) virtv1.VirtualMachineInstanceSpec {
	var spec virtv1.VirtualMachineInstanceSpec
	for _, claim := range claims {
		source := &virtv1.PersistentVolumeClaimVolumeSource{}
		source.ClaimName = claim
		spec.Volumes = append(spec.Volumes, virtv1.Volume{Name: claim, VolumeSource: virtv1.VolumeSource{PersistentVolumeClaim: source}})
	}
	return spec
}

func stoppedVM(name string, claims ...string) plan.StoppedVM {
	vm := &virtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	if len(claims) > 0 {
		vm.Spec.Template = &virtv1.VirtualMachineInstanceTemplateSpec{Spec: specOf(claims...)}
	}
	return plan.StoppedVM{VM: vm, Record: &maintenance.VMRecord{Node: "n1"}}
}

func asked(t *testing.T, w *world, question string) int {
	t.Helper()
	n := 0
	for _, a := range w.asked {
		if a == question {
			n++
		}
	}
	return n
}

// Limits are counted by what the API server says at that moment.
func TestAdmissionReadsTheNodesFromTheAPIServer(t *testing.T) {
	w := &world{
		cached: []*corev1.Node{node("n1", "")},
		live:   []*corev1.Node{node("n1", ""), node("n2", maintenance.PhaseDraining), node("n3", maintenance.PhaseCompleted), node("n4", "")},
		instances: map[string][]plan.Instance{
			"n1": {instance("here")}, "n2": {instance("leaves")}, "n3": {instance("stray")}, "n4": {instance("elsewhere")},
		},
	}
	s, err := w.gatherer().Live(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Nodes) != 4 || s.Node == nil || s.Node.Name != "n1" {
		t.Errorf("the nodes are %v and the subject is %v", s.Nodes, s.Node)
	}
	if asked(t, w, "nodes from the API server") != 1 || asked(t, w, "nodes from the cache") != 0 {
		t.Errorf("asked was: %q", w.asked)
	}
	if len(s.Instances) != 1 || s.Instances[0].VMI.Name != "here" {
		t.Errorf("the VMIs on the node are %v", s.Instances)
	}
	// Those of a node that is being drained move as well; of one that is empty none do.
	if len(s.Draining) != 1 || s.Draining[0].VMI.Name != "leaves" {
		t.Errorf("the VMIs of other nodes that drain are %v", s.Draining)
	}
	if s.Requests == nil {
		t.Error("what the launchers request is not in the snapshot")
	}
	if len(s.Pods) > 0 || asked(t, w, "pods of n1") > 0 {
		t.Error("the node's pods were looked at before it was admitted")
	}
	if !s.Now.Equal(now) || s.Upgrade != "v2" || s.Pending != "volumes are" || !s.Config.PossibleIsConsent || s.ID == "" {
		t.Errorf("the snapshot holds now %s, upgrade %q, pending %q, consent %t, id %q", s.Now, s.Upgrade, s.Pending, s.Config.PossibleIsConsent, s.ID)
	}
	if again, err := w.gatherer().Live(t.Context(), "n1"); err != nil || again.ID == s.ID {
		t.Error("two snapshots have the same id")
	}
}

func TestANodeThatDoesNotExistIsNoError(t *testing.T) {
	w := &world{live: []*corev1.Node{node("n2", "")}}
	if s, err := w.gatherer().Live(t.Context(), "n9"); err != nil || s.Node != nil || s.Name != "n9" {
		t.Errorf("%+v, %v", s, err)
	}
}

// What is installed a moment later must not look as if it had been read.
func TestWhatIsPendingIsAskedBeforeAnythingIsReadOfIt(t *testing.T) {
	w := &world{live: []*corev1.Node{node("n1", "")}}
	if _, err := w.gatherer().Live(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	pending := slices.Index(w.asked, "what is pending")
	volumes := slices.IndexFunc(w.asked, func(q string) bool { return q == `volumes of "n1" and []` })
	if pending < 0 || volumes < 0 || pending > volumes {
		t.Errorf("the order was %q", w.asked)
	}
}

func TestAPassLooksAtCachesAndAtPodsOnlyWhenTheyMatter(t *testing.T) {
	given := node("n1", maintenance.PhaseDraining)
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	budget := func(name string) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	w := &world{cached: []*corev1.Node{node("n1", ""), node("n2", "")}, pods: []*corev1.Pod{web}, known: true, budgets: []*policyv1.PodDisruptionBudget{budget("b"), budget("a")}, policy: "the last replica of v"}
	s, err := w.gatherer().Node(t.Context(), given, false)
	if err != nil {
		t.Fatal(err)
	}
	if s.Node != given {
		t.Error("the subject is not the node that the pass is about")
	}
	if s.PodsKnown || s.Pods != nil || asked(t, w, "pods of n1") != 0 || asked(t, w, "nodes from the API server") != 0 {
		t.Errorf("without pods, asked was: %q", w.asked)
	}
	if s, err = w.gatherer().Node(t.Context(), given, true); err != nil {
		t.Fatal(err)
	}
	if !s.PodsKnown || len(s.Pods) != 1 || s.Pods[0].Pod != web || s.Pods[0].Policy != "the last replica of v" {
		t.Fatalf("the pods are %+v (known: %t)", s.Pods, s.PodsKnown)
	}
	if b := s.Pods[0].Budgets; len(b) != 2 || b[0].Name != "a" || b[1].Name != "b" {
		t.Errorf("the budgets are %v, want them by name", b)
	}
	w.budgets = nil
	if s, err = w.gatherer().Node(t.Context(), given, true); err != nil || s.Pods[0].Budgets != nil {
		t.Errorf("a pod without budget: %v, %v", s.Pods[0].Budgets, err)
	}
}

// Longhorn goes on naming the last workload of a volume after it is gone.
func TestAVolumeIsUsedByWhatRuns(t *testing.T) {
	w := &world{
		cached:    []*corev1.Node{node("n1", "")},
		instances: map[string][]plan.Instance{"n1": {instance("a", "disk-a", "disk-b"), instance("c", "disk-c")}},
		stopped:   []plan.StoppedVM{stoppedVM("off", "disk-off"), stoppedVM("without-template")},
		running:   map[string]bool{"ns/runs": true},
		volumes: map[string][]plan.Volume{
			"n1": {{Name: "v", Users: []plan.VolumeUser{
				{Kind: "VirtualMachineInstance", Namespace: "ns", Name: "runs"},
				{Kind: "VirtualMachineInstance", Namespace: "ns", Name: "gone"},
				{Kind: "Deployment", Namespace: "ns", Name: "gone"},
			}}},
			"": {{Name: "v-off"}},
		},
	}
	s, err := w.gatherer().Node(t.Context(), w.cached[0], false)
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.VolumeUser{{Kind: "VirtualMachineInstance", Namespace: "ns", Name: "runs"}, {Kind: "Deployment", Namespace: "ns", Name: "gone"}}
	if len(s.Volumes) != 1 || !reflect.DeepEqual(s.Volumes[0].Users, want) {
		t.Errorf("the volumes are %+v, want users %v", s.Volumes, want)
	}
	if asked(t, w, `volumes of "n1" and [ns/disk-a ns/disk-b ns/disk-c]`) != 1 || asked(t, w, `volumes of "" and [ns/disk-off]`) != 1 {
		t.Errorf("asked was: %q", w.asked)
	}
	if len(s.Stopped) != 2 || len(s.Stopped[0].Volumes) != 1 || asked(t, w, "what is remembered of off") != 1 {
		t.Errorf("the stopped VMs are %+v", s.Stopped)
	}
	g := w.gatherer()
	g.Storage = func() Storage { return nil }
	if s, err := g.Node(t.Context(), w.cached[0], false); err != nil || s.Volumes != nil {
		t.Errorf("without Longhorn there are volumes: %v, %v", s.Volumes, err)
	}
}

// It is read within an admission request.
func TestARosterIsTheNodesAlone(t *testing.T) {
	w := &world{cached: []*corev1.Node{node("n1", ""), node("n2", "")}}
	given := node("n1", maintenance.PhaseDraining)
	s, err := w.gatherer().Roster(given)
	if err != nil {
		t.Fatal(err)
	}
	if s.Node != given || len(s.Nodes) != 2 {
		t.Errorf("the subject is %v among %v", s.Node, s.Nodes)
	}
	if want := []string{"nodes from the cache", "what is pending"}; !slices.Equal(w.asked, want) {
		t.Errorf("asked was %q, want %q", w.asked, want)
	}
}

func TestAStoppedVMIsLookedAtAlone(t *testing.T) {
	w := &world{cached: []*corev1.Node{node("n1", ""), node("n2", "")}, stopped: []plan.StoppedVM{stoppedVM("off", "disk-off")}, volumes: map[string][]plan.Volume{"": {{Name: "v"}}}}
	s, v, err := w.gatherer().VM(w.stopped[0].VM)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "n1" || s.Node == nil || len(s.Nodes) != 2 || v.VM.Name != "off" || len(v.Volumes) != 1 || asked(t, w, "what is remembered of off") != 1 {
		t.Errorf("snapshot %+v, VM %+v", s, v)
	}
	if asked(t, w, "VMIs of n1") > 0 {
		t.Errorf("asked was: %q", w.asked)
	}
	other := stoppedVM("runs").VM
	if s, v, err := w.gatherer().VM(other); s != nil || v != nil || err != nil {
		t.Errorf("a VM without record: %v, %v, %v", s, v, err)
	}
}

func TestSlotsCountWhatWasSentAndWhoWaits(t *testing.T) {
	w := &world{}
	s := &plan.Snapshot{Name: "n1", Now: now}
	if err := w.gatherer().Slots(s); err != nil || !reflect.DeepEqual(s.Migrations, plan.Slots{Node: 1, Cluster: 3, Waiting: []int{4}}) {
		t.Errorf("%+v, %v", s.Migrations, err)
	}
}

// A snapshot with a hole in it would be decided upon.
func TestWhatCannotBeReadIsAnError(t *testing.T) {
	for _, question := range []string{
		"nodes from the API server", "VMIs of n1", "VMs stopped for n1", "KubeVirt's configuration", `volumes of "n1" and []`, "requests of launchers",
		"pods from the API server, kubevirt.io=virt-launcher, spec.nodeName=n1", "VMIs of n2", `volumes of "" and [ns/disk-off]`,
	} {
		w := &world{live: []*corev1.Node{node("n1", ""), node("n2", maintenance.PhaseDraining)}, stopped: []plan.StoppedVM{stoppedVM("off", "disk-off")}, fails: question}
		if _, err := w.gatherer().Live(t.Context(), "n1"); !errors.Is(err, errBroken) {
			t.Errorf("%s: the error is %v", question, err)
		}
	}
	for _, question := range []string{"nodes from the cache", "VMIs of n1", "pods of n1", "what holds a pod"} {
		w := &world{cached: []*corev1.Node{node("n1", "")}, pods: []*corev1.Pod{{}}, fails: question}
		if _, err := w.gatherer().Node(t.Context(), w.cached[0], true); !errors.Is(err, errBroken) {
			t.Errorf("%s: the error is %v", question, err)
		}
	}
}
