package labelsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	virtv1 "kubevirt.io/api/core/v1"

	kubevirtcontrollers "github.com/drydock-dev/drydock/pkg/generated/controllers/kubevirt.io/v1"
	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// queue stands for a controller of wrangler's: a cache that a test fills, and a record
// of what was asked for.
type queue[T generic.RuntimeMetaObject] struct {
	objects cache.Indexer
	asked   []string
}

func queueOf[T generic.RuntimeMetaObject](objects ...T) *queue[T] {
	q := &queue[T]{objects: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
	for _, object := range objects {
		_ = q.objects.Add(object)
	}
	return q
}

func (q *queue[T]) EnqueueAfter(namespace, name string, after time.Duration) {
	q.asked = append(q.asked, fmt.Sprintf("%s/%s after %s", namespace, name, after))
}

func (q *queue[T]) Cache() generic.CacheInterface[T] {
	return generic.NewCache[T](q.objects, schema.GroupResource{Group: "kubevirt.io"})
}

type vmQueue struct {
	kubevirtcontrollers.VirtualMachineController
	*queue[*virtv1.VirtualMachine]
}

func (q vmQueue) EnqueueAfter(namespace, name string, after time.Duration) {
	q.queue.EnqueueAfter(namespace, name, after)
}
func (q vmQueue) Cache() generic.CacheInterface[*virtv1.VirtualMachine] { return q.queue.Cache() }

type vmiQueue struct {
	kubevirtcontrollers.VirtualMachineInstanceController
	*queue[*virtv1.VirtualMachineInstance]
}

func (q vmiQueue) EnqueueAfter(namespace, name string, after time.Duration) {
	q.queue.EnqueueAfter(namespace, name, after)
}
func (q vmiQueue) Cache() generic.CacheInterface[*virtv1.VirtualMachineInstance] {
	return q.queue.Cache()
}

type launchers []*corev1.Pod

func (l launchers) Launchers(string, string) ([]*corev1.Pod, error) { return l, nil }

// machine is a VM with VMI and pods, and what was written.
type machine struct {
	*Controller
	vm     *virtv1.VirtualMachine
	vmi    *virtv1.VirtualMachineInstance
	pods   launchers
	writes []string
	// answer is what the API server says to a write.
	answer error
	vms    vmQueue
	vmis   vmiQueue
}

func controlledBy(kind, name string, uid types.UID) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{Kind: kind, Name: name, UID: uid, Controller: &yes}}
}

// newMachine has a VM whose strategy is new to its VMI, and a VMI whose label is new to
// its pod.
func newMachine(t testing.TB, change func(m *machine)) *machine {
	m := &machine{
		vm: &virtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "vm", Labels: set{strategy: "Shutdown"}}},
		vmi: &virtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a", UID: "vmi", ResourceVersion: "7", Labels: set{"harvesterhci.io/tier": "gold"}, OwnerReferences: controlledBy("VirtualMachine", "a", "vm"),
		}},
		pods: launchers{launcher("pod")},
	}
	if change != nil {
		change(m)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	write := func(kind string) Patch {
		return func(_ context.Context, namespace, name string, body []byte) error {
			m.writes = append(m.writes, fmt.Sprintf("%s %s/%s %s", kind, namespace, name, body))
			return m.answer
		}
	}
	m.vms, m.vmis = vmQueue{queue: queueOf(m.vm)}, vmiQueue{queue: queueOf[*virtv1.VirtualMachineInstance]()}
	if m.vmi != nil {
		_ = m.vmis.objects.Add(m.vmi)
	}
	m.Controller = &Controller{
		Settings: settings(t), VMs: m.vms, VMIs: m.vmis, Launchers: m.pods, Log: log,
		PatchVMI: write("VMI"), PatchPod: write("pod"), ctx: t.Context(),
	}
	m.leading.Store(true)
	return m
}

func launcher(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "8", OwnerReferences: controlledBy("VirtualMachineInstance", "a", "vmi"),
	}}
}

const (
	vmiWrite = `VMI ns/a {"metadata":{"labels":{"harvesterhci.io/maintain-mode-strategy":"Shutdown"},"resourceVersion":"7","uid":"vmi"}}`
	podWrite = `pod ns/%[1]s {"metadata":{"annotations":{"drydock.dev/copied-labels":"harvesterhci.io/tier"},"labels":{"harvesterhci.io/tier":"gold"},"resourceVersion":"8","uid":"%[1]s"}}`
)

// run looks at VM and VMI once.
func (m *machine) run() error {
	_, err := m.onVM("ns/a", m.vm)
	_, errVMI := m.onVMI("ns/a", m.vmi)
	return errors.Join(err, errVMI)
}

func TestWhatIsWritten(t *testing.T) {
	now := metav1.Now()
	toVMI, toPod := vmiWrite, fmt.Sprintf(podWrite, "pod")
	for name, c := range map[string]struct {
		change func(m *machine)
		want   []string
	}{
		"labels that differ, one patch for each object": {want: []string{toVMI, toPod}},

		"a VM without VMI":     {change: func(m *machine) { m.vmi = nil }},
		"a VM being deleted":   {change: func(m *machine) { m.vm.DeletionTimestamp = &now }, want: []string{toPod}},
		"a VMI being deleted":  {change: func(m *machine) { m.vmi.DeletionTimestamp = &now }},
		"a pod being deleted":  {change: func(m *machine) { m.pods[0].DeletionTimestamp = &now }, want: []string{toVMI}},
		"a VMI of another VM":  {change: func(m *machine) { m.vmi.OwnerReferences[0].UID = "earlier" }, want: []string{toPod}},
		"a VMI of no VM":       {change: func(m *machine) { m.vmi.OwnerReferences = nil }, want: []string{toPod}},
		"a pod of another VMI": {change: func(m *machine) { m.pods[0].OwnerReferences[0].UID = "earlier" }, want: []string{toVMI}},
		"a pod that has ended": {change: func(m *machine) { m.pods[0].Status.Phase = corev1.PodSucceeded }, want: []string{toVMI}},
		"both pods of a migration": {
			change: func(m *machine) { m.pods = append(m.pods, launcher("target")) },
			want:   []string{toVMI, toPod, fmt.Sprintf(podWrite, "target")},
		},
		"a VMI without labels": {
			change: func(m *machine) { m.vmi.Labels = nil }, want: []string{toVMI},
		},
		"nothing when nothing differs": {change: func(m *machine) {
			m.vmi.Labels[strategy] = "Shutdown"
			m.pods[0].Labels = m.vmi.Labels
		}},
		"a removal by what the pod that the VM has left says": {
			change: func(m *machine) {
				m.vmi.Labels = set{strategy: "Shutdown"}
				m.pods[0].Status.Phase, m.pods[0].Annotations = corev1.PodSucceeded, set{maintenance.AnnotationCopied: "harvesterhci.io/tier"}
				m.pods = append(m.pods, launcher("target"))
				m.pods[1].Labels = set{strategy: "Shutdown", "harvesterhci.io/tier": "gold", "harvesterhci.io/own": "x"}
			},
			want: []string{`pod ns/target {"metadata":{"annotations":{"drydock.dev/copied-labels":""},"labels":{"harvesterhci.io/tier":null},"resourceVersion":"8","uid":"target"}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, c.change)
			if err := m.run(); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(m.writes, c.want) {
				t.Errorf("written:\n%q\nwant:\n%q", m.writes, c.want)
			}
		})
	}
}

func TestNobodyButTheLeaderWrites(t *testing.T) {
	m := newMachine(t, nil)
	m.leading.Store(false)
	if err := m.run(); err != nil || m.writes != nil {
		t.Errorf("written by one who does not lead: %q, %v", m.writes, err)
	}
	if err := m.Lead(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"ns/a after 0s"}; !slices.Equal(m.vms.asked, want) || !slices.Equal(m.vmis.asked, want) {
		t.Errorf("the new leader looks at the VMs %v and the VMIs %v, want %v of each", m.vms.asked, m.vmis.asked, want)
	}
	if err := m.run(); err != nil || len(m.writes) != 2 {
		t.Errorf("written by the leader: %q, %v", m.writes, err)
	}
	m.Rest()
	if err := m.run(); err != nil || len(m.writes) != 2 {
		t.Errorf("written by one who has been put to rest: %q, %v", m.writes, err)
	}
}

func TestAnswersToAWrite(t *testing.T) {
	resource := schema.GroupResource{Resource: "things"}
	again := []string{"ns/a after " + conflictDelay.String()}
	for name, c := range map[string]struct {
		answer error
		asked  []string
		fails  bool
	}{
		"a conflict is compared anew": {answer: apierrors.NewConflict(resource, "a", nil), asked: again},
		"who is gone needs no labels": {answer: apierrors.NewNotFound(resource, "a")},
		"anything else is an error":   {answer: apierrors.NewInternalError(errors.New("broken")), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, nil)
			m.answer = c.answer
			if err := m.run(); (err != nil) != c.fails || (c.fails && !errors.Is(err, c.answer)) {
				t.Errorf("the error is %v", err)
			}
			if !slices.Equal(m.vms.asked, c.asked) || !slices.Equal(m.vmis.asked, c.asked) {
				t.Errorf("looked at again: VMs %v, VMIs %v; want %v", m.vms.asked, m.vmis.asked, c.asked)
			}
		})
	}
}

// Ten thousand VMIs write their status all the time.
func BenchmarkHeartbeat(b *testing.B) {
	m := newMachine(b, func(m *machine) {
		m.vmi.Labels[strategy] = "Shutdown"
		for n := range 10 {
			m.vmi.Labels[fmt.Sprintf("example.com/label-%d", n)] = "x"
		}
		m.pods[0].Labels = m.vmi.Labels
	})
	b.ReportAllocs()
	for b.Loop() {
		_, _ = m.onVM("ns/a", m.vm)
		_, _ = m.onVMI("ns/a", m.vmi)
	}
	if m.writes != nil {
		b.Fatal(m.writes)
	}
}
