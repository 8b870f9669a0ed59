package faults

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

// status answers with a Kubernetes status instead of forwarding.
func status(code int, reason string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"injected"}`, code, reason)
	}
}

// The first try of each write is answered badly, the second is let pass.
func TestEveryWriteAnsweredBadlyOnce(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, http.Handler){
		"409": status(http.StatusConflict, "Conflict"),
		"429": status(http.StatusTooManyRequests, "TooManyRequests"),
		"500": status(http.StatusInternalServerError, "InternalError"),
		"the response is lost": func(_ http.ResponseWriter, r *http.Request, forward http.Handler) {
			forward.ServeHTTP(httptest.NewRecorder(), r)
			hangUp()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster.For(t)
			s, p := newStory(t, c), newProxy(t, c)
			var mu sync.Mutex
			tried := map[string]bool{}
			p.set(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
				mu.Lock()
				what := r.Method + " " + r.URL.Path
				again := tried[what]
				tried[what] = !again
				mu.Unlock()
				if again {
					forward.ServeHTTP(w, r)
					return
				}
				answer(w, r, forward)
			})
			manager.Start(t, p.kubeconfig, "--leader-elect=false")
			s.request(t)
			s.awaitCompleted(t)
			s.leave(t)
			s.awaitOut(t)
			s.checkOnce(t)
		})
	}
}
