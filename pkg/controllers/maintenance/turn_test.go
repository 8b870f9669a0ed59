package maintenance

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/execute"
	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// enqueued stands for wrangler's controller of nodes, and keeps what is asked of it.
type enqueued struct {
	corecontrollers.NodeController
	nodes []*corev1.Node

	mu    sync.Mutex
	asked []string
}

func (e *enqueued) EnqueueAfter(name string, after time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if after != 0 {
		name += " after " + after.String()
	}
	e.asked = append(e.asked, name)
}

// taken returns what was asked for since it was last called.
func (e *enqueued) taken() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	asked := e.asked
	slices.Sort(asked)
	e.asked = nil
	return asked
}

func (e *enqueued) Cache() generic.NonNamespacedCacheInterface[*corev1.Node] {
	return listed{nodes: e.nodes}
}

type listed struct {
	corecontrollers.NodeCache
	nodes []*corev1.Node
}

func (l listed) List(labels.Selector) ([]*corev1.Node, error) { return l.nodes, nil }

// slowly is a ledger and an executor that wait for the test.
type slowly struct {
	ledger
	read, carriedOut chan struct{}
}

func (s *slowly) Read(ctx context.Context) (*execute.Page, error) {
	<-s.read
	return s.ledger.Read(ctx)
}

func (s *slowly) Node(context.Context, *corev1.Node, *plan.Plan) (time.Duration, error) {
	<-s.carriedOut
	return 0, nil
}

func (*slowly) VM(context.Context, plan.VMPlan) error { return nil }
func (*slowly) Tell(*corev1.Node, plan.Event)         {}
func (*slowly) Retell(context.Context, *corev1.Node)  {}
func (*slowly) Decided(*plan.Plan)                    {}
func (*slowly) Planned(string, []plan.Fate)           {}
func (*slowly) Forget(string)                         {}

// A pass that comes while others are decided about neither waits nor asks again by and by:
// the decision brings it back. A node that is decided about has its pass after that.
func TestWhoMissesTheTurnIsBroughtBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, s := &enqueued{}, &slowly{read: make(chan struct{}), carriedOut: make(chan struct{})}
		c := &Controller{Nodes: nodes, Gatherer: observed{}, Ledger: s, Executor: s, Observer: s, Pods: s, Words: maintenance.Plain, Log: logrus.New()}
		ended := make(chan error)
		go func() { ended <- c.admit(t.Context(), "cp3") }()
		synctest.Wait()
		for _, name := range []string{"cp1", "w9", "w9"} {
			if err := c.admit(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if asked := nodes.taken(); len(asked) > 0 {
			t.Errorf("while it is decided, %v are asked for", asked)
		}
		close(s.read)
		synctest.Wait()
		if asked := nodes.taken(); !slices.Equal(asked, []string{"w9"}) {
			t.Errorf("once it is decided, %v are asked for", asked)
		}
		close(s.carriedOut)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if asked := nodes.taken(); !slices.Equal(asked, []string{"cp1"}) {
			t.Errorf("once it is carried out, %v are asked for", asked)
		}
		if !c.admitting.take("cp3") {
			t.Error("the turn is not given back")
		}
	})
}

// unanswered is an executor whose API server does not answer: each request ends with the
// pass.
type unanswered struct{ slowly }

func (*unanswered) Node(ctx context.Context, _ *corev1.Node, _ *plan.Plan) (time.Duration, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// twelve nodes ask, more than are served at once.
type twelve struct{ observed }

func (twelve) Asking(context.Context, func(*corev1.Node) bool) ([]*plan.Snapshot, error) {
	var nodes []*corev1.Node
	for n := range 13 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("w%02d", n), UID: types.UID(strconv.Itoa(n))}}
		node.Annotations = map[string]string{maintenance.AnnotationRequested: "true", maintenance.AnnotationRequestID: strconv.Itoa(n)}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		nodes = append(nodes, node)
	}
	nodes[12].Annotations = nil // the last one stays
	var snapshots []*plan.Snapshot
	for _, node := range nodes[:12] {
		snapshots = append(snapshots, &plan.Snapshot{Now: time.Now(), Name: node.Name, Node: node, Nodes: nodes})
	}
	return snapshots, nil
}

// A decision that was not carried out before the pass ended is not lost: its grant counts
// for all others.
func TestADecisionThatIsNotCarriedOutIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, s := &enqueued{}, &unanswered{slowly{read: make(chan struct{})}}
		close(s.read)
		c := &Controller{Nodes: nodes, Gatherer: twelve{}, Ledger: s, Executor: s, Observer: s, Pods: s, Words: maintenance.Plain, Log: logrus.New()}
		ctx, cancel := context.WithTimeout(t.Context(), passLimit)
		defer cancel()
		if err := c.admit(ctx, "w00"); err == nil {
			t.Error("its own node's failure is not told")
		}
		for n, asked := 1, nodes.taken(); n < 12; n++ {
			if want := fmt.Sprintf("w%02d after 1s", n); !slices.Contains(asked, want) {
				t.Errorf("%s is not looked at again: %v", want, asked)
			}
		}
	})
}

// What has become known concerns nodes in maintenance and those that wait to be, and is
// told to whoever leads.
func TestWhoWaitsIsReconsidered(t *testing.T) {
	node := func(name string, annotations map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	}
	nodes := &enqueued{nodes: []*corev1.Node{
		node("idle", nil),
		node("asking", map[string]string{maintenance.AnnotationRequested: "true"}),
		node("engaged", map[string]string{maintenance.AnnotationNodeRecord: "{}"}),
	}}
	c := &Controller{Nodes: nodes, Words: maintenance.Plain}
	c.Reconsider()
	if asked := nodes.taken(); len(asked) > 0 {
		t.Errorf("a standby asks for %v", asked)
	}
	c.leading.Store(true)
	c.Reconsider()
	if asked := nodes.taken(); !slices.Equal(asked, []string{"asking", "engaged"}) {
		t.Errorf("%v are asked for", asked)
	}
}
