package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/sirupsen/logrus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

const (
	drydock        = "system:serviceaccount:harvester-system:drydock"
	virtController = "system:serviceaccount:kubevirt:kubevirt-controller"
	virtAPI        = "system:serviceaccount:kubevirt:kubevirt-apiserver"
	alice          = "alice"
)

// roster is a cluster's nodes; nil stands for caches that cannot be read.
type roster []*corev1.Node

func (r roster) Roster(node *corev1.Node) (*plan.Snapshot, error) {
	if r == nil {
		return nil, errors.New("no caches")
	}
	s := &plan.Snapshot{Name: node.Name, Node: node}
	for _, n := range r {
		if n.Name == node.Name {
			n = node
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s, nil
}

func (r roster) Get(name string) (*corev1.Node, error) {
	for _, node := range r {
		if node.Name == name {
			return node, nil
		}
	}
	return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
}

func silent() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

func handler(words maintenance.Vocabulary, nodes roster, homes *Homes) http.Handler {
	return New(Options{
		Roster: nodes, Nodes: nodes, Homes: homes, Words: words, Account: drydock,
		VirtController: func(username string) bool { return username == virtController },
		Log:            silent(),
	})
}

// review is one request to a webhook; old and now are JSON, "" for none.
type review struct {
	path, user, old, now, subResource string
	operation                         admissionv1.Operation
}

func (r review) body(t testing.TB) []byte {
	t.Helper()
	request := &admissionv1.AdmissionRequest{UID: "r-1", Operation: r.operation, Namespace: "ns", Name: "a", SubResource: r.subResource}
	request.UserInfo.Username = r.user
	if r.operation == "" {
		request.Operation = admissionv1.Create
		if r.old != "" {
			request.Operation = admissionv1.Update
		}
	}
	if r.now != "" {
		request.Object.Raw = []byte(r.now)
	}
	if r.old != "" {
		request.OldObject.Raw = []byte(r.old)
	}
	body := admissionv1.AdmissionReview{Request: request}
	body.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind(reviewKind))
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// send posts a review and returns the response, which must belong to it.
func (r review) send(t testing.TB, h http.Handler) *admissionv1.AdmissionResponse {
	t.Helper()
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodPost, r.path+"?timeout=5s", bytes.NewReader(r.body(t)))
	request.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusOK {
		t.Fatalf("%s answers %d: %s", r.path, recorder.Code, recorder.Body)
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil || answer.Response == nil || answer.Response.UID != "r-1" {
		t.Fatalf("%s answers %s (%v)", r.path, recorder.Body, err)
	}
	return answer.Response
}

// patched is the object that the API server would store.
func patched(t testing.TB, object string, response *admissionv1.AdmissionResponse) string {
	t.Helper()
	if !response.Allowed {
		t.Fatalf("refused: %s", response.Result.Message)
	}
	if response.Patch == nil {
		return object
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		t.Fatalf("%s: %v", response.Patch, err)
	}
	after, err := patch.Apply([]byte(object))
	if err != nil {
		t.Fatalf("%s does not apply to %s: %v", response.Patch, object, err)
	}
	return string(after)
}

func sameJSON(t testing.TB, got, want string) bool {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// words replaces the short names that the tables use by the keys they stand for.
var words = strings.NewReplacer(
	"STRATEGY", maintenance.LabelStrategy, "MARKER", maintenance.AnnotationMarker, "RECORD", maintenance.AnnotationVMRecord,
	"REQUESTED_BY", maintenance.AnnotationRequestedBy, "OWN_REQUEST", maintenance.AnnotationRenamedRequested, "OWN_FORCE", maintenance.AnnotationRenamedForced,
	"REQUEST", maintenance.AnnotationRequested, "FORCE", maintenance.AnnotationForced,
).Replace
