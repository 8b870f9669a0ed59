package gather

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/plan"
)

func launcher(vmi string, phase corev1.PodPhase) *corev1.Pod {
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "virt-launcher-" + vmi}}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "VirtualMachineInstance", Name: vmi, UID: types.UID("of-" + vmi), Controller: &yes}}
	pod.Status.Phase = phase
	return pod
}

// A watch that is behind must not make a node full of VMs look empty, before its admission
// or in its drain.
func TestALauncherWhoseVMIIsNotKnownYetIsWaitedFor(t *testing.T) {
	here := instance("here")
	here.VMI.UID = "of-here"
	unowned := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "unowned"}}
	for name, c := range map[string]struct {
		launcher *corev1.Pod
		exists   bool
		pending  string
		asks     bool
	}{
		"its VMI is known":                      {launcher: launcher("here", corev1.PodRunning), exists: true},
		"its VMI is there and not known":        {launcher: launcher("late", corev1.PodRunning), exists: true, asks: true, pending: "VMI ns/late, whose launcher is on the node, is"},
		"its VMI is gone":                       {launcher: launcher("gone", corev1.PodRunning), asks: true},
		"it has ended":                          {launcher: launcher("late", corev1.PodSucceeded), exists: true},
		"it belongs to no VMI":                  {launcher: unowned, exists: true},
		"it has yet to start, and is not known": {launcher: launcher("late", corev1.PodPending), exists: true, asks: true, pending: "VMI ns/late, whose launcher is on the node, is"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{
				cached: []*corev1.Node{node("n1", "")}, live: []*corev1.Node{node("n1", "")}, instances: map[string][]plan.Instance{"n1": {here}},
				launchers: []*corev1.Pod{c.launcher}, known: true, exist: map[types.UID]bool{"of-late": c.exists, "of-here": c.exists},
			}
			g := w.gatherer()
			g.Pending = func() string { return "" }
			snapshots, err := g.Asking(t.Context(), func(*corev1.Node) bool { return true })
			if err != nil {
				t.Fatal(err)
			}
			live, err := g.Live(t.Context(), "n1")
			if err != nil {
				t.Fatal(err)
			}
			draining, err := g.Node(t.Context(), w.cached[0], true)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []*plan.Snapshot{snapshots[0], live, draining} {
				if s.Pending != c.pending {
					t.Errorf("it waits for %q, want %q", s.Pending, c.pending)
				}
			}
			if asked := slices.ContainsFunc(w.asked, func(q string) bool { return strings.HasPrefix(q, "whether ns/") }); asked != c.asks {
				t.Errorf("the API server was asked: %t, want %t", asked, c.asks)
			}
		})
	}
}
