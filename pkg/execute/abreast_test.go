package execute

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// movers notes what it is asked. A VMI called "a" is not let go before "b" was.
type movers struct {
	Movers
	mu      sync.Mutex
	asked   []string
	bAsked  chan struct{}
	refused error
}

func (m *movers) note(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, what)
}

func (m *movers) Withdraw(_ context.Context, vmi *kubevirtv1.VirtualMachineInstance, _ string) error {
	if vmi.Name == "a" {
		<-m.bAsked
	}
	m.note("withdraw " + vmi.Name)
	if vmi.Name == "b" {
		close(m.bAsked)
		return m.refused
	}
	return nil
}

func (m *movers) DeleteMigration(_ context.Context, migration *kubevirtv1.VirtualMachineInstanceMigration) error {
	m.note("delete " + migration.Name)
	return nil
}

// What is asked about one VM keeps its order and ends with a failure; the VMs do not wait
// for each other, and what failed is told in the plan's order.
func TestVMsDoNotWaitForEachOther(t *testing.T) {
	vmi := func(name string) *kubevirtv1.VirtualMachineInstance {
		return &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	}
	migration := func(name string) *kubevirtv1.VirtualMachineInstanceMigration {
		return &kubevirtv1.VirtualMachineInstanceMigration{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	}
	m := &movers{bAsked: make(chan struct{}), refused: errors.New("b is refused")}
	e := &Executor{observer: unobserved{}, movers: m, memory: NewMemory(), clock: clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), log: logrus.New()}
	_, err := e.Node(t.Context(), &corev1.Node{}, &plan.Plan{Actions: []plan.Action{
		plan.Withdraw{VMI: vmi("a"), Node: "w1"}, plan.DeleteMigration{VMI: vmi("a"), Migration: migration("of-a")},
		plan.Withdraw{VMI: vmi("b"), Node: "w1"}, plan.DeleteMigration{VMI: vmi("b"), Migration: migration("of-b")},
	}})
	if !errors.Is(err, m.refused) {
		t.Errorf("the failure is %v", err)
	}
	if want := []string{"withdraw b", "withdraw a", "delete of-a"}; !slices.Equal(m.asked, want) {
		t.Errorf("asked %v, want %v", m.asked, want)
	}
}

func TestWhatTheRestReliesOnIsDoneAlone(t *testing.T) {
	actions := []plan.Action{plan.Evict{}, plan.Migrate{}, plan.Uncordon{}, plan.Start{}}
	var sizes []int
	for len(actions) > 0 {
		var batch []plan.Action
		batch, actions = nextBatch(actions)
		sizes = append(sizes, len(batch))
	}
	if want := []int{2, 1, 1}; !slices.Equal(sizes, want) {
		t.Errorf("batches of %v, want %v", sizes, want)
	}
}

// unobserved is where nobody counts.
type unobserved struct{}

func (unobserved) Acted(plan.Action, error)        {}
func (unobserved) Evicted(bool, int)               {}
func (unobserved) Turned(*corev1.Node, *plan.Face) {}
