package webhook

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

func TestWhatIsNoReviewIsAnsweredWithWhatIsWrong(t *testing.T) {
	valid := string(review{path: PathValidateVirtualMachines, now: `{}`}.body(t))
	for name, test := range map[string]struct {
		method, path, contentType, body string
		status                          int
		says                            string
	}{
		"another method":          {method: http.MethodGet, body: valid, status: http.StatusMethodNotAllowed},
		"another path":            {path: "/validate/pods", body: valid, status: http.StatusNotFound},
		"no content type":         {contentType: "-", body: valid, status: http.StatusUnsupportedMediaType, says: "application/json"},
		"another content type":    {contentType: "text/yaml", body: valid, status: http.StatusUnsupportedMediaType, says: `"text/yaml"`},
		"a content type to parse": {contentType: "application/json; charset=utf-8", body: valid, status: http.StatusOK},
		"nothing":                 {body: "", status: http.StatusBadRequest, says: "not an AdmissionReview"},
		"no JSON":                 {body: "foobar", status: http.StatusBadRequest, says: "not an AdmissionReview"},
		"a list":                  {body: "[]", status: http.StatusBadRequest, says: "not an AdmissionReview"},
		"null":                    {body: "null", status: http.StatusBadRequest, says: "AdmissionReview"},
		"cut off":                 {body: valid[:len(valid)-5], status: http.StatusBadRequest},
		"another kind":            {body: `{"apiVersion":"v1","kind":"Pod"}`, status: http.StatusBadRequest, says: `"Pod"`},
		"another version":         {body: strings.Replace(valid, "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1), status: http.StatusBadRequest, says: "v1beta1"},
		"no request":              {body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, status: http.StatusBadRequest, says: "no request"},
		"no uid":                  {body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"operation":"CREATE"}}`, status: http.StatusBadRequest, says: "request.uid"},
		"a request of a wrong type": {body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":7}}`, status: http.StatusBadRequest,
			says: "cannot be read"},
		"too large":          {body: strings.Repeat(" ", maxReview) + valid, status: http.StatusRequestEntityTooLarge, says: "larger than"},
		"deeply nested":      {body: `{"apiVersion":` + strings.Repeat("[", 1<<20), status: http.StatusBadRequest},
		"just not too large": {body: strings.Repeat(" ", maxReview-len(valid)) + valid, status: http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			method, path, contentType := test.method, test.path, test.contentType
			if method == "" {
				method = http.MethodPost
			}
			if path == "" {
				path = PathValidateVirtualMachines
			}
			if contentType == "" {
				contentType = "application/json"
			}
			for _, chunked := range []bool{false, true} {
				request := httptest.NewRequest(method, path, strings.NewReader(test.body))
				if chunked {
					request.ContentLength = -1
				}
				if contentType != "-" {
					request.Header.Set("Content-Type", contentType)
				}
				recorder := httptest.NewRecorder()
				handler(maintenance.Plain, roster{}, NewHomes()).ServeHTTP(recorder, request)
				if recorder.Code != test.status || !strings.Contains(recorder.Body.String(), test.says) {
					t.Errorf("answered %d %q, want %d with %q", recorder.Code, recorder.Body, test.status, test.says)
				}
			}
		})
	}
}

func TestABrokenObjectIsRefusedWithAReason(t *testing.T) {
	for _, path := range []string{PathMutateVirtualMachines, PathValidateVirtualMachines, PathMutateNodes, PathValidateNodes} {
		for name, test := range map[string]struct {
			review
			says string
		}{
			"no object":                {review{}, "request.object is missing"},
			"no old object":            {review{operation: admissionv1.Update, now: `{"metadata":{}}`}, "request.oldObject is missing"},
			"labels of a wrong type":   {review{old: `{"metadata":{}}`, now: `{"metadata":{"labels":7}}`}, "request.object"},
			"an old one that is bad":   {review{old: `{"metadata":[]}`, now: `{"metadata":{}}`}, "request.oldObject"},
			"no metadata":              {review{old: `{"metadata":{}}`, now: `{}`}, "request.object.metadata"},
			"an object that is a list": {review{old: `{"metadata":{}}`, now: `[]`}, "request.object"},
		} {
			test.path = path
			response := test.send(t, handler(maintenance.Plain, roster{}, NewHomes()))
			if strings.Contains(path, "nodes") && (name == "no object" || name == "no metadata") {
				// Nothing is decided about a node that is created, or has no annotations.
				continue
			}
			if response.Allowed || response.Result == nil || !strings.Contains(response.Result.Message, test.says) || response.Result.Code != http.StatusBadRequest {
				t.Errorf("%s, %s: answered %+v, want a refusal with %q", path, name, response, test.says)
			}
			if len(response.Patch) > 0 {
				t.Errorf("%s, %s: refused with a patch", path, name)
			}
		}
	}
}

func TestNothingIsDecidedAboutOtherOperations(t *testing.T) {
	for _, path := range []string{PathMutateVirtualMachines, PathValidateVirtualMachines, PathMutateLaunchers, PathMutateNodes, PathValidateNodes} {
		for _, r := range []review{
			{operation: admissionv1.Delete, old: `{"metadata":7}`},
			{operation: admissionv1.Connect, now: `{"metadata":7}`},
			{operation: admissionv1.Update, subResource: "status", old: `{"metadata":7}`, now: `{"metadata":7}`},
		} {
			r.path = path
			if response := r.send(t, handler(maintenance.Takeover, roster{}, NewHomes())); !response.Allowed || response.Patch != nil {
				t.Errorf("%s %s %s: answered %+v", path, r.operation, r.subResource, response)
			}
		}
	}
}

func TestRubbishDoesNotFloodTheLog(t *testing.T) {
	log, lines := test.NewNullLogger()
	log.SetLevel(logrus.TraceLevel)
	h := New(Options{Roster: roster{}, Nodes: roster{}, Homes: NewHomes(), Words: maintenance.Plain, Log: log})
	for range 1000 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, PathValidateNodes, strings.NewReader("foobar")))
	}
	if got := len(lines.AllEntries()); got > 50 {
		t.Errorf("1000 requests that are no review wrote %d lines", got)
	}
}

// A rule that panics, here for want of a function, is answered and said, not thrown.
func TestAPanicIsAnsweredAndSaidInOneLine(t *testing.T) {
	log, lines := test.NewNullLogger()
	h := New(Options{Log: log})
	request := httptest.NewRequest(http.MethodPost, PathMutateVirtualMachines, bytes.NewReader(review{now: `{"metadata":{}}`}.body(t)))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusInternalServerError || len(lines.AllEntries()) != 1 {
		t.Errorf("answered %d with %d lines in the log", recorder.Code, len(lines.AllEntries()))
	}
}
