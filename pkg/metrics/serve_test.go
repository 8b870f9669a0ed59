package metrics

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestRequestsAreNamedAsRBACDoesAndNeverByAName(t *testing.T) {
	for path, want := range map[string]string{
		"GET /api/v1/nodes":                                                              "list nodes",
		"GET /api/v1/nodes/{name}":                                                       "get nodes",
		"PATCH /api/v1/nodes/secret-host/status":                                         "patch nodes/status",
		"POST /api/v1/namespaces/{namespace}/pods/{name}/eviction":                       "create pods/eviction",
		"GET /api/v1/namespaces":                                                         "list namespaces",
		"GET /api/v1/namespaces/shop":                                                    "get namespaces",
		"PUT /api/v1/namespaces/shop/finalize":                                           "update namespaces/finalize",
		"DELETE /apis/kubevirt.io/v1/namespaces/shop/virtualmachines":                    "deletecollection virtualmachines",
		"DELETE /apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstancemigrations/m": "delete virtualmachineinstancemigrations",
		"PUT /apis/subresources.kubevirt.io/v1/namespaces/shop/virtualmachineinstances/a/evacuate/cancel": "update virtualmachineinstances/evacuate",
		"POST /apis/authorization.k8s.io/v1/subjectaccessreviews":                                         "create subjectaccessreviews",
		"GET /apis/coordination.k8s.io/v1/namespaces/harvester-system/leases/drydock":                     "get leases",
		"GET /version": "get other",
		"GET /":        "get other",
		"GET /api":     "get other",
	} {
		method, path, _ := strings.Cut(path, " ")
		verb, resource := request(method, &url.URL{Path: path})
		if got := verb + " " + resource; got != want {
			t.Errorf("%s %s is %q, want %q", method, path, got, want)
		}
	}
}

func TestAnAnswerWithoutAStatusMakesOneSeries(t *testing.T) {
	m, _ := at(noon)
	result := clientResult{m}
	result.Increment(context.Background(), "200", "GET", "10.0.0.1")
	result.Increment(context.Background(), "<error>", "GET", "10.0.0.1")
	result.Increment(context.Background(), "dial tcp 10.0.0.1", "GET", "10.0.0.1")
	counts(t, m.clientRequests, map[string]float64{"/200/GET": 1, "/none/GET": 2})
}

func TestWebhooksAreMeasuredByPathAndVerdict(t *testing.T) {
	m, clock := at(noon)
	mux := http.NewServeMux()
	for path, body := range map[string]string{
		"/validate/nodes": `{"response":{"allowed":false}}`, "/mutate/nodes": `{"response":{"allowed":true}}`, "/mutate/launchers": `{}`,
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, _ *http.Request) {
			clock.SetTime(clock.Now().Add(2 * time.Millisecond))
			_, _ = io.WriteString(w, body)
		})
	}
	handler := m.Webhook(mux)
	for _, path := range []string{"/validate/nodes", "/validate/nodes", "/mutate/nodes", "/mutate/launchers", "/made/up/1", "/made/up/2"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))
		if path == "/mutate/nodes" && answer.Body.String() != `{"response":{"allowed":true}}` {
			t.Errorf("the answer is changed: %s", answer.Body)
		}
	}
	sums(t, m.webhook, map[string]float64{"//validate/nodes/denied": .004, "//mutate/nodes/allowed": .002, "//mutate/launchers/error": .002, "/other/error": 0})
}
