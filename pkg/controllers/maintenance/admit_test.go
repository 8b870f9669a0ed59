package maintenance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/execute"
	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// observed gathers nothing: the snapshots are given.
type observed struct{ Gatherer }

func (observed) Draining(*plan.Snapshot) error { return nil }

// asking makes three control-plane nodes, of which some ask, the last named first.
func asking(ids map[string]string) []*plan.Snapshot {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var nodes []*corev1.Node
	for n, name := range []string{"cp1", "cp2", "cp3"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"node-role.kubernetes.io/control-plane": "true"}, Annotations: map[string]string{}}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if id := ids[name]; id != "" {
			node.Annotations[maintenance.AnnotationRequested], node.Annotations[maintenance.AnnotationRequestID] = "true", id
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
				Type: maintenance.ConditionType, Reason: string(maintenance.PhaseValidating), Status: corev1.ConditionUnknown,
				LastTransitionTime: metav1.NewTime(began.Add(-time.Duration(n) * time.Second)),
			})
		}
		nodes = append(nodes, node)
	}
	var snapshots []*plan.Snapshot
	for _, node := range nodes {
		if ids[node.Name] != "" {
			snapshots = append(snapshots, &plan.Snapshot{Now: began, Name: node.Name, Node: node, Nodes: nodes})
		}
	}
	return snapshots
}

func (observed) Asking(context.Context, func(*corev1.Node) bool) ([]*plan.Snapshot, error) {
	return asking(map[string]string{"cp1": "a", "cp2": "b", "cp3": "c"}), nil
}

// ledger is in memory. The first writes are overtaken.
type ledger struct {
	overtaken int
	grants    map[string]execute.Grant
	writes    int
}

func (l *ledger) Read(context.Context) (*execute.Page, error) {
	page := &execute.Page{Grants: map[string]execute.Grant{}}
	maps.Copy(page.Grants, l.grants)
	return page, nil
}

func (l *ledger) Write(_ context.Context, page *execute.Page) error {
	if l.overtaken > 0 {
		l.overtaken--
		return conflict
	}
	l.writes++
	l.grants = page.Grants
	return nil
}

var conflict = apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, execute.LedgerName, errors.New("overtaken"))

func said(verdicts []verdict) string {
	var all []string
	for _, v := range verdicts {
		all = append(all, fmt.Sprintf("%s %s", v.node.Name, v.plan.Face.Phase))
	}
	return strings.Join(all, ", ")
}

// upgraded are two requests, of which something forbids the older one by now.
type upgraded struct{ observed }

func (upgraded) Asking(context.Context, func(*corev1.Node) bool) ([]*plan.Snapshot, error) {
	all := asking(map[string]string{"cp1": "a", "cp3": "c"})
	for _, s := range all {
		if s.Name == "cp3" {
			s.Upgrade = "v2"
		}
	}
	return all, nil
}

// A grant by a manager that died before the node could show it, which does not pass any
// more, is in nobody's way.
func TestAGrantThatDoesNotPassAnyMoreIsDropped(t *testing.T) {
	l := &ledger{grants: map[string]execute.Grant{"cp3": {UID: "uid-cp3", ID: "c"}}}
	c := &Controller{Gatherer: upgraded{}, Ledger: l, Words: maintenance.Plain, Log: logrus.New()}
	verdicts, err := c.grant(t.Context())
	if err != nil || said(verdicts) != "cp3 Error, cp1 Draining" {
		t.Errorf("decided %q, %v", said(verdicts), err)
	}
	if _, left := l.grants["cp3"]; left || len(l.grants) != 1 {
		t.Errorf("the grants are %v", l.grants)
	}
}

// Of requests that are decided about together, what is granted to the oldest counts for
// the others, and all of it is written down at once.
func TestRequestsAreDecidedAboutTogether(t *testing.T) {
	l := &ledger{overtaken: 1}
	c := &Controller{Gatherer: observed{}, Ledger: l, Words: maintenance.Plain, Log: logrus.New()}
	verdicts, err := c.grant(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := said(verdicts), "cp3 Draining, cp2 Error, cp1 Error"; got != want {
		t.Errorf("decided %q, want %q", got, want)
	}
	if l.writes != 1 || len(l.grants) != 1 || l.grants["cp3"] != (execute.Grant{UID: "uid-cp3", ID: "c"}) {
		t.Errorf("%d writes of %v", l.writes, l.grants)
	}
	// A manager that died after that is succeeded: the grant stands for its request, and
	// for no other.
	again, err := c.grant(t.Context())
	if err != nil || said(again) != said(verdicts) || l.writes != 1 {
		t.Errorf("decided again %q, %d writes, %v", said(again), l.writes, err)
	}
	l.grants = map[string]execute.Grant{"cp3": {UID: "uid-cp3", ID: "an older request"}, "cp1": {UID: "uid-cp1", ID: "a"}}
	if verdicts, err = c.grant(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := said(verdicts), "cp3 Error, cp2 Error, cp1 Draining"; got != want {
		t.Errorf("beside a grant decided %q, want %q", got, want)
	}
}
