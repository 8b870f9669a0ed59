package webhook

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Whatever is posted to whichever webhook, it is answered with a status that says what
// was wrong, or with a review of the same UID.
func FuzzReview(f *testing.F) {
	f.Add(PathMutateVirtualMachines, review{now: `{}`}.body(f))
	f.Add(PathValidateNodes, review{old: `{}`, now: `{"spec":{"unschedulable":true}}`}.body(f))
	f.Add(PathMutateLaunchers, []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"x","operation":"CREATE","object":null}}`))
	f.Add(PathMutateNodes, []byte(`null`))
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if !strings.HasPrefix(path, "/") || !utf8.ValidString(path) {
			path = PathMutateVirtualMachines
		}
		request, err := http.NewRequest(http.MethodPost, "http://x", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.URL.Path = path
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		handler(maintenance.Takeover, roster{node("n1")}, NewHomes()).ServeHTTP(recorder, request)
		switch {
		case recorder.Code == http.StatusOK:
			var asked, answer admissionv1.AdmissionReview
			if json.Unmarshal(body, &asked) != nil || asked.Request == nil {
				return // with another case of its names, or a list that only one of the decoders takes
			}
			if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil || answer.Response.UID == "" {
				t.Errorf("answered %s (%v)", recorder.Body, err)
			}
		case recorder.Code >= http.StatusInternalServerError:
			t.Errorf("answered %d: %s", recorder.Code, recorder.Body)
		}
	})
}

// canonical is an object as an API server sends it: each key once, and of the strings no
// others than JSON can hold. ok is false for what is no object.
func canonical(raw string) (string, bool) {
	var object map[string]any
	if json.Unmarshal([]byte(raw), &object) != nil || object == nil {
		return "", false
	}
	again, err := json.Marshal(object)
	return string(again), err == nil
}

// A VM that is completed is one that the validator accepts, unless its strategy was
// written and means nothing; and completing it again changes nothing.
func FuzzVirtualMachine(f *testing.F) {
	for _, object := range []string{
		`{}`, `{"metadata":{"labels":null},"spec":{"template":{"metadata":null}}}`,
		`{"metadata":{"labels":{"STRATEGY":"foobar"}},"spec":{"runStrategy":"Halted","template":{"metadata":{"labels":{}}}}}`,
		`{"metadata":{"annotations":{"MARKER":"n1","RECORD":"{}"}},"spec":{"running":true}}`,
		`{"metadata":{"labels":{"STRATEGY":"Shutdown"}},"spec":{"runStrategy":"Manual","template":{"spec":{"evictionStrategy":"None"}}}}`,
		`{"metadata":{"deletionTimestamp":"x"},"spec":null}`,
	} {
		f.Add("", words(object), alice)
		f.Add(words(object), words(`{"metadata":{"annotations":{"MARKER":"n1","RECORD":"{}"}},"spec":{"running":true,"template":{}}}`), virtController)
	}
	f.Fuzz(func(t *testing.T, old, now, user string) {
		h := handler(maintenance.Plain, roster{}, NewHomes())
		now, ok := canonical(now)
		if !ok {
			return
		}
		if old != "" {
			if old, ok = canonical(old); !ok {
				return
			}
		}
		response := review{path: PathMutateVirtualMachines, user: user, old: old, now: now}.send(t, h)
		if !response.Allowed {
			if validated := (review{path: PathValidateVirtualMachines, user: user, old: old, now: now}).send(t, h); validated.Allowed {
				t.Fatalf("the mutator cannot read what the validator can: %s", response.Result.Message)
			}
			return
		}
		after := patched(t, now, response)
		if again := (review{path: PathMutateVirtualMachines, user: user, old: old, now: after}).send(t, h); !again.Allowed || again.Patch != nil {
			t.Errorf("completed as %s, which is completed again with %s", after, again.Patch)
		}
		var before, stored struct {
			Metadata metadata `json:"metadata"`
		}
		if err := json.Unmarshal([]byte(after), &stored); err != nil {
			t.Fatal(err)
		}
		validated := review{path: PathValidateVirtualMachines, user: user, old: old, now: after}.send(t, h)
		value, labelled := stored.Metadata.Labels[maintenance.LabelStrategy]
		if !labelled && stored.Metadata.DeletionTimestamp == nil {
			t.Errorf("stored without a strategy: %s", after)
		}
		_, valid := maintenance.ParseStrategy(value)
		untouched := false
		if old != "" && json.Unmarshal([]byte(old), &before) == nil {
			was, had := before.Metadata.Labels[maintenance.LabelStrategy]
			untouched = had && was == value
		}
		if want := valid || untouched || stored.Metadata.DeletionTimestamp != nil; validated.Allowed != want {
			t.Errorf("%s: allowed is %t, want %t", after, validated.Allowed, want)
		}
	})
}

// A node's patch applies, and what is stored is a request in one vocabulary alone.
func FuzzNode(f *testing.F) {
	f.Add("", "", "true", "true", "", true)
	f.Add("true", "", "", "no", "true", false)
	f.Fuzz(func(t *testing.T, oldRequest, oldForce, request, force, by string, cordon bool) {
		with := func(request, force, by string) *corev1.Node {
			n := node("n1")
			for key, value := range map[string]string{maintenance.AnnotationRequested: request, maintenance.AnnotationForced: force, maintenance.AnnotationRequestedBy: by} {
				if value != "" {
					n.Annotations[key] = value
				}
			}
			return n
		}
		old, now := with(oldRequest, oldForce, ""), with(request, force, by)
		now.Spec.Unschedulable = cordon
		for _, vocabulary := range []maintenance.Vocabulary{maintenance.Plain, maintenance.Takeover} {
			h := handler(vocabulary, roster{old, node("n2")}, NewHomes())
			before := encode(t, now)
			after := patched(t, before, review{path: PathMutateNodes, user: alice, old: encode(t, old), now: before}.send(t, h))
			var stored corev1.Node
			if err := json.Unmarshal([]byte(after), &stored); err != nil {
				t.Fatal(err)
			}
			if vocabulary == maintenance.Takeover && oldRequest == "" && stored.Annotations[maintenance.AnnotationRequested] != "" {
				t.Errorf("Harvester sees the request in %s", after)
			}
			if !vocabulary.Request(old).Wanted && vocabulary.Request(&stored).Wanted && stored.Annotations[maintenance.AnnotationRequestedBy] != alice {
				t.Errorf("who asks is not known in %s", after)
			}
			if response := (review{path: PathValidateNodes, user: alice, old: encode(t, old), now: after}).send(t, h); !response.Allowed {
				t.Errorf("refused although another node remains: %s", response.Result.Message)
			}
		}
	})
}
