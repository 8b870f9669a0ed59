package execute

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// Memory is what this process remembers of what it has done and what the caches may
// not show yet. Losing it in a crash costs repeated requests, never a wrong decision:
// everything that decides is on the objects.
type Memory struct {
	mu       sync.Mutex
	attempts map[types.UID]plan.Attempt
	sent     map[types.NamespacedName]sending
	starts   map[types.NamespacedName]starting
	waiting  map[string]int
	// noTarget is, for each node, since when no other one takes a VMI on it.
	noTarget map[string]map[types.UID]time.Time
	// news is since when a node's message has been out of date.
	news map[string]time.Time
}

type sending struct {
	node string
	at   time.Time
}

type starting struct {
	calls int
	last  time.Time
}

// sentFor is how long a VMI that was asked to leave counts as leaving before its mark
// or migration shows in the cache.
const sentFor = 10 * time.Second

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	return &Memory{
		attempts: map[types.UID]plan.Attempt{}, sent: map[types.NamespacedName]sending{},
		starts: map[types.NamespacedName]starting{}, waiting: map[string]int{},
		noTarget: map[string]map[types.UID]time.Time{}, news: map[string]time.Time{},
	}
}

// Attempts returns a copy of the evictions and migrations that were asked for.
func (m *Memory) Attempts() map[types.UID]plan.Attempt {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.attempts)
}

// Sent returns the VMIs that were asked to leave a node a moment ago.
func (m *Memory) Sent(now time.Time) map[types.NamespacedName]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.sent, func(_ types.NamespacedName, s sending) bool { return now.Sub(s.at) > sentFor })
	sent := make(map[types.NamespacedName]string, len(m.sent))
	for name, s := range m.sent {
		sent[name] = s.node
	}
	return sent
}

// Recall adds to a stopped VM what was done to start it.
func (m *Memory) Recall(v *plan.StoppedVM) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.starts[vmKey(v.VM)]
	v.StartCalls, v.LastTry = s.calls, s.last
}

// Waiting counts, for each node other than the given one that has any, the VMs that
// wait for a migration slot.
func (m *Memory) Waiting(node string) []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var counts []int
	for other, count := range m.waiting {
		if other != node {
			counts = append(counts, count)
		}
	}
	return counts
}

// SetWaiting records how many such VMs a node has.
func (m *Memory) SetWaiting(node string, count int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if count > 0 {
		m.waiting[node] = count
	} else {
		delete(m.waiting, node)
	}
}

// NoTarget returns since when no other node takes a VMI on the given one.
func (m *Memory) NoTarget(node string) map[types.UID]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.noTarget[node] // never changed, only replaced
}

// SetNoTarget records which VMIs on a node no other one takes now.
func (m *Memory) SetNoTarget(node string, vmis []types.UID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	since := make(map[types.UID]time.Time, len(vmis))
	for _, uid := range vmis {
		since[uid] = now
		if first, ok := m.noTarget[node][uid]; ok {
			since[uid] = first
		}
	}
	m.noTarget[node] = since
}

// Forget drops what belongs to a node that is not drained any more.
func (m *Memory) Forget(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.attempts, func(_ types.UID, a plan.Attempt) bool { return a.Node == node })
	maps.DeleteFunc(m.sent, func(_ types.NamespacedName, s sending) bool { return s.node == node })
	delete(m.waiting, node)
	delete(m.noTarget, node)
	delete(m.news, node)
}

// untold returns since when a node's message has been out of date.
func (m *Memory) untold(node string, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.news[node]; !ok {
		m.news[node] = now
	}
	return m.news[node]
}

func (m *Memory) told(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.news, node)
}

func (m *Memory) evicted(pod *corev1.Pod, code int, message string, sent, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.attempts[pod.UID]
	a.Count, a.Sent, a.Last, a.Code, a.Message, a.Node = a.Count+1, sent, now, code, message, pod.Spec.NodeName
	if owner := metav1.GetControllerOf(pod); owner != nil {
		a.Owner = owner.UID
	}
	m.attempts[pod.UID] = a
}

func (m *Memory) migrated(vmi *kubevirtv1.VirtualMachineInstance, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.attempts[vmi.UID]
	a.Count, a.Last, a.Node, a.Withdrawn = a.Count+1, now, vmi.Status.NodeName, ""
	m.attempts[vmi.UID] = a
}

// withdrawn notes when a move was taken back, and why; it is no further try.
func (m *Memory) withdrawn(vmi *kubevirtv1.VirtualMachineInstance, why string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.attempts[vmi.UID]
	a.Last, a.Node, a.Withdrawn = now, vmi.Status.NodeName, why
	m.attempts[vmi.UID] = a
}

// Reserve counts the VMIs that a plan sends away as sent, before it is carried out.
func (m *Memory) Reserve(actions []plan.Action, now time.Time) {
	for _, action := range actions {
		if a, ok := action.(plan.Evict); ok && a.VMI != nil {
			m.sending(a.VMI, a.Pod.Spec.NodeName, now)
		}
		if a, ok := action.(plan.Migrate); ok {
			m.sending(a.VMI, a.VMI.Status.NodeName, now)
		}
	}
}

func (m *Memory) sending(vmi *kubevirtv1.VirtualMachineInstance, node string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent[types.NamespacedName{Namespace: vmi.Namespace, Name: vmi.Name}] = sending{node: node, at: now}
}

func (m *Memory) restored(vm *kubevirtv1.VirtualMachine, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starts[vmKey(vm)] = starting{last: now}
}

func (m *Memory) startCalled(vm *kubevirtv1.VirtualMachine, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.starts[vmKey(vm)]
	m.starts[vmKey(vm)] = starting{calls: s.calls + 1, last: now}
}

// ForgetVM drops what belongs to a VM that is back, or gone.
func (m *Memory) ForgetVM(vm types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.starts, vm)
}

func vmKey(vm *kubevirtv1.VirtualMachine) types.NamespacedName {
	return types.NamespacedName{Namespace: vm.Namespace, Name: vm.Name}
}
