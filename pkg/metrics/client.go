package metrics

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	clientmetrics "k8s.io/client-go/tools/metrics"
)

// HookClients makes all clients of this process report their requests. client-go keeps
// the hook for good, and the first one only: for the program, not for tests.
func (m *Metrics) HookClients() {
	clientmetrics.Register(clientmetrics.RegisterOpts{RequestLatency: clientLatency{m}, RequestResult: clientResult{m}})
}

type clientLatency struct{ *Metrics }

// Observe implements client-go's LatencyMetric.
func (c clientLatency) Observe(_ context.Context, method string, u url.URL, latency time.Duration) {
	verb, resource := request(method, &u)
	c.clientLatency.WithLabelValues(verb, resource).Observe(latency.Seconds())
}

type clientResult struct{ *Metrics }

// Increment implements client-go's ResultMetric. Without an answer the code is a text
// that differs with the address.
func (c clientResult) Increment(_ context.Context, code, method, _ string) {
	if len(code) != 3 {
		code = "none"
	}
	c.clientRequests.WithLabelValues(method, code).Inc()
}

// request names the verb and the resource of a request as RBAC does, with a subresource
// behind a slash. Both come from fixed places in the path, never from a name in it, so
// that there are as many as kinds that Drydock deals with.
func request(method string, u *url.URL) (verb, resource string) {
	segments := strings.Split(strings.Trim(u.Path, "/"), "/")
	switch {
	case len(segments) > 2 && segments[0] == "api":
		segments = segments[2:]
	case len(segments) > 3 && segments[0] == "apis":
		segments = segments[3:]
	default:
		return strings.ToLower(method), "other"
	}
	// /namespaces/NAME and its subresources are the namespace's own.
	inside := len(segments) > 2 && segments[0] == "namespaces"
	if own := len(segments) == 3 && (segments[2] == "status" || segments[2] == "finalize"); inside && !own {
		segments = segments[2:]
	}
	resource = segments[0]
	if len(segments) > 2 {
		resource += "/" + segments[2]
	}
	return verbOf(method, len(segments) > 1), resource
}

func verbOf(method string, named bool) string {
	switch method {
	case http.MethodGet:
		if named {
			return "get"
		}
		return "list"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodDelete:
		if !named {
			return "deletecollection"
		}
	}
	return strings.ToLower(method)
}
