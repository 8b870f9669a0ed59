package metrics

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Webhook measures the answers of a handler of admission reviews at those paths. The path
// of a series is the one under which a ServeMux found the handler, so that nobody makes
// series by asking for paths that do not exist.
func (m *Metrics) Webhook(next http.Handler, paths ...string) http.Handler {
	measured(m.webhook, paths, texts{"allowed", "denied", "error"})
	measured(m.webhook, texts{"other"}, texts{"error"})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, answer := m.clock.Now(), &answer{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(answer, r)
		path := "other"
		if at := strings.IndexByte(r.Pattern, '/'); at >= 0 && r.Pattern != "/" {
			path = r.Pattern[at:]
		}
		m.webhook.WithLabelValues(path, answer.verdict()).Observe(m.clock.Since(began).Seconds())
	})
}

// answer keeps what tells an answer that allows from one that does not.
type answer struct {
	http.ResponseWriter
	code int
	body []byte
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(body []byte) (int, error) {
	a.body = append(a.body, body...)
	return a.ResponseWriter.Write(body)
}

func (a *answer) verdict() string {
	var review struct {
		Response *struct {
			Allowed bool `json:"allowed"`
		} `json:"response"`
	}
	switch {
	case a.code != http.StatusOK || json.Unmarshal(a.body, &review) != nil || review.Response == nil:
		return "error"
	case review.Response.Allowed:
		return "allowed"
	}
	return "denied"
}
