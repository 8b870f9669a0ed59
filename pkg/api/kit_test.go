package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/drydock-dev/drydock/pkg/api/access"
	"github.com/drydock-dev/drydock/pkg/api/feed"
	"github.com/drydock-dev/drydock/pkg/api/view"
	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// world is the least that the API stands on: what it makes of requests is tested on it.
// Whom the cluster believes and what it allows is tested against a cluster, in tests/api.
type world struct {
	mu      sync.Mutex
	nodes   map[string]*corev1.Node
	patches []map[string]any
	// errors are answered to writes, one after the other.
	errors  []error
	pending string
	// late is how often a VMI is not known yet.
	late    int
	idle    string
	nodeSet *feed.Feed
	// managed says whether somebody manages the machines, and refusals what keeps power from
	// being controlled, and from being switched; switched is what was asked for.
	managed  bool
	refusals [2]string
	switched []string
}

func newWorld(t *testing.T, nodes ...*corev1.Node) (*world, http.Handler) {
	t.Helper()
	w := &world{nodes: map[string]*corev1.Node{}, nodeSet: feed.New(&view.Nodes)}
	informer := &handFed{}
	if _, err := w.nodeSet.Follow(informer); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		w.nodes[node.Name] = node
		informer.handler.OnAdd(node, true)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	return w, New(t.Context(), &Config{
		Authenticator: w, Authorizer: w, Nodes: w, Observer: w, Feeds: w, Hardware: w,
		Words: maintenance.Plain, Idle: func() string { return w.idle }, Log: log,
	})
}

func node(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7", Annotations: map[string]string{}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, c := range change {
		c(n)
	}
	return n
}

func annotated(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[key] = value }
}

func shows(phase maintenance.Phase, status corev1.ConditionStatus, message string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: maintenance.ConditionType, Status: status, Reason: string(phase), Message: message})
	}
}

func unschedulable(n *corev1.Node) { n.Spec.Unschedulable = true }

// Authenticate believes the header Authorization: nobody, viewer or editor.
func (w *world) Authenticate(r *http.Request) (user.Info, error) {
	name := r.Header.Get("Authorization")
	if name == "" {
		return nil, access.ErrNobody
	}
	return &user.DefaultInfo{Name: name}, nil
}

func (w *world) May(_ context.Context, who user.Info, right access.Right) (bool, error) {
	switch who.GetName() {
	case "editor":
		return true, nil
	case "viewer":
		return slices.Contains([]string{"get", "list"}, right.Verb), nil
	}
	return false, nil
}

func (w *world) Impersonate(_ context.Context, sender user.Info, _ http.Header) (*access.Caller, error) {
	return &access.Caller{Info: sender}, nil
}

func (w *world) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Node, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n, ok := w.nodes[name]; ok {
		return n, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
}

func (w *world) Patch(_ context.Context, _ string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*corev1.Node, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errors) > 0 {
		err := w.errors[0]
		w.errors = w.errors[1:]
		return nil, err
	}
	var patch map[string]any
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	w.patches = append(w.patches, patch)
	return nil, nil
}

func (w *world) Live(_ context.Context, name string) (*plan.Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &plan.Snapshot{Name: name, Node: w.nodes[name], Pending: w.pending}
	if w.late > 0 {
		w.late--
		s.Pending, s.PendingAgain = "VMI ns/a, whose launcher is on the node, is", time.Second
	}
	for _, n := range w.nodes {
		s.Nodes = append(s.Nodes, n)
	}
	return s, nil
}

func (w *world) Power(context.Context, string) (managed bool, refusal string, err error) {
	return w.managed, w.refusals[0], nil
}

func (w *world) Switch(_ context.Context, node, operation string) (refusal string, err error) {
	if w.refusals[1] == "" {
		w.switched = append(w.switched, operation+" "+node)
	}
	return w.refusals[1], nil
}

func (w *world) Feed(_ context.Context, kind *view.Kind) (*feed.Feed, error) {
	if kind.Type == view.Nodes.Type {
		return w.nodeSet, nil
	}
	return nil, fmt.Errorf("%s: %w", kind.Plural, feed.ErrNotKnown)
}

// written returns the annotations of the last patch, as "key=value", removed ones as
// "key-", and what it sets of the spec.
func (w *world) written() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.patches) == 0 {
		return ""
	}
	last := w.patches[len(w.patches)-1]
	var parts []string
	metadata, _ := last["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if value, has := metadata["annotations"]; has && value == nil {
		parts = append(parts, "all annotations-")
	}
	for key, value := range annotations {
		if value == nil {
			parts = append(parts, key+"-")
		} else {
			parts = append(parts, fmt.Sprintf("%s=%v", key, value))
		}
	}
	slices.Sort(parts)
	if spec, ok := last["spec"]; ok {
		parts = append(parts, fmt.Sprint(spec))
	}
	return strings.Join(parts, " ")
}

// ask sends a request and returns the answer with its body.
func ask(t testing.TB, h http.Handler, who, method, target, body string, header ...string) (answer, string) {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", who)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, r)
	return answer{recorder.Code, recorder.Header()}, strings.TrimSuffix(recorder.Body.String(), "\n")
}

type answer struct {
	StatusCode int
	Header     http.Header
}
