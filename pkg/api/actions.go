package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drydock-dev/drydock/pkg/api/access"
	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// call is an action that is asked for.
type call struct {
	caller *access.Caller
	node   *corev1.Node
	body   []byte
}

// action is something that can be asked of a node. The result of run is answered as JSON;
// nil is no content. It never has both id and type: front-ends would take it for an object
// of theirs and put it into their store.
type action struct {
	name string
	// verb is the right on the node that it takes.
	verb string
	// shown tells whether it makes sense now; nil for always. It is offered only then.
	shown func(node *corev1.Node) bool
	run   func(s *server, ctx context.Context, c *call) (any, error)
}

const (
	toRead   = "get"
	toChange = "update"
)

// actions is every action that there is.
var actions = []action{
	{name: "maintenancePossible", verb: toRead, run: (*server).maintenancePossible},
	{name: "listUnhealthyVM", verb: toRead, run: (*server).listUnhealthyVM},
	{name: "maintenancePlan", verb: toRead, run: (*server).maintenancePlan},
	{name: "powerActionPossible", verb: toRead, run: (*server).powerActionPossible},
	{name: "enableMaintenanceMode", verb: toChange, shown: not(inMaintenance), run: (*server).enableMaintenanceMode},
	{name: "disableMaintenanceMode", verb: toChange, shown: inMaintenance, run: (*server).disableMaintenanceMode},
	{name: "clearMaintenanceMode", verb: toChange, shown: refused, run: (*server).clearMaintenanceMode},
	{name: "cordon", verb: toChange, shown: not(cordoned), run: (*server).cordon},
	{name: "uncordon", verb: toChange, shown: cordoned, run: (*server).uncordon},
	{name: "powerAction", verb: toChange, shown: inMaintenance, run: (*server).powerAction},
	{name: "enableCPUManager", verb: toChange, run: (*server).enableCPUManager},
	{name: "disableCPUManager", verb: toChange, run: (*server).disableCPUManager},
}

func not(f func(*corev1.Node) bool) func(*corev1.Node) bool {
	return func(node *corev1.Node) bool { return !f(node) }
}

func inMaintenance(node *corev1.Node) bool {
	_, ok := node.Annotations[maintenance.AnnotationStatus]
	return ok
}

func cordoned(node *corev1.Node) bool { return node.Spec.Unschedulable }

func refused(node *corev1.Node) bool {
	c := maintenance.Condition(node)
	return c != nil && maintenance.Phase(c.Reason) == maintenance.PhaseError && c.Status == corev1.ConditionFalse
}

func actionNames() string {
	names := make([]string, 0, len(actions))
	for i := range actions {
		names = append(names, actions[i].name)
	}
	return strings.Join(names, ", ")
}

// act serves POST on a node.
func (s *server) act(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), actionTime)
	defer cancel()
	result, err := s.perform(ctx, r)
	switch {
	case err != nil:
		fail(w, problemOf(err))
	case result == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		writeJSON(w, r, result)
	}
}

func (s *server) perform(ctx context.Context, r *http.Request) (any, error) {
	known, name := requestOf(r), r.PathValue("name")
	known.node, known.action = clip(name), clip(r.URL.Query().Get("action"))
	if !r.URL.Query().Has("action") {
		known.action = "none"
		return nil, problemf(http.StatusUnprocessableEntity, "query parameter action: is missing; there are %s", actionNames())
	}
	i := slices.IndexFunc(actions, func(a action) bool { return a.name == r.URL.Query().Get("action") })
	if i < 0 {
		return nil, problemf(http.StatusForbidden, "query parameter action: %q is unknown; there are %s", known.action, actionNames())
	}
	wanted := &actions[i]
	// Nobody learns of a node's existence without the right to read it.
	if err := s.require(ctx, known.caller, access.Right{Verb: wanted.verb, Resource: "nodes", Name: name}); err != nil {
		return nil, err
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	select {
	case s.working <- struct{}{}:
		defer func() { <-s.working }()
	case <-ctx.Done():
		return nil, problemf(http.StatusServiceUnavailable, "too many actions are asked for at a time")
	}
	node, err := s.node(ctx, name)
	if err != nil {
		return nil, err
	}
	return wanted.run(s, ctx, &call{caller: known.caller, node: node, body: body})
}

// node reads a node from the API server: a front-end that acts on what it has just been
// told must not be answered from what a cache has not heard of yet.
func (s *server) node(ctx context.Context, name string) (*corev1.Node, error) {
	unknown := problemf(http.StatusNotFound, "node %q does not exist", clip(name))
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, unknown
	}
	node, err := s.Nodes.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, unknown
	case errors.Is(err, context.DeadlineExceeded):
		return nil, problemf(http.StatusServiceUnavailable, "the cluster does not answer: %v", err)
	case err != nil:
		return nil, err
	}
	return node, nil
}

// clip bounds what is repeated of what a caller wrote.
func clip(text string) string {
	const most = 253
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
