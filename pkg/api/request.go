package api

import (
	"context"
	"crypto/rand"
	"net/http"
	"regexp"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/drydock-dev/drydock/pkg/api/access"
)

// request is what is known of a request while it is served.
type request struct {
	id     string
	caller *access.Caller
	// action and node are what an action is logged with.
	action, node string
}

type requestKey struct{}

func requestOf(r *http.Request) *request {
	known, ok := r.Context().Value(requestKey{}).(*request)
	if !ok {
		return &request{}
	}
	return known
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// requestID keeps the id that a proxy has given, so that one id finds a request in both
// logs; others could put anything into the log.
func (s *server) requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); s.proxies.trusts(r) && idPattern.MatchString(id) {
		return id
	}
	return rand.Text()
}

// outcome remembers the status that was answered.
type outcome struct {
	http.ResponseWriter
	status int
}

func (o *outcome) WriteHeader(status int) {
	o.status = status
	o.ResponseWriter.WriteHeader(status)
}

// Unwrap lets websockets take the connection over.
func (o *outcome) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// logged gives each request an id, and writes one line for each action: who, what, to
// which node, and how it ended. Reads are lines for debugging.
func (s *server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		known := &request{id: s.requestID(r)}
		h := w.Header()
		h.Set("X-Request-Id", known.id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		o := &outcome{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(o, r.WithContext(context.WithValue(r.Context(), requestKey{}, known)))
		log := s.Log.WithFields(logrus.Fields{"request": known.id, "user": "", "outcome": o.status, "took": time.Since(began).String()})
		if known.caller != nil {
			log = log.WithField("user", known.caller.GetName())
			if by := known.caller.By; by != nil {
				log = log.WithField("by", by.GetName())
			}
		}
		if known.action == "" {
			log.WithFields(logrus.Fields{"method": r.Method, "path": r.URL.EscapedPath()}).Debug("request")
			return
		}
		log.WithFields(logrus.Fields{"node": known.node, "action": known.action}).Info("action")
	})
}

// identified lets through who proves to be somebody.
func (s *server) identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := s.identify(r)
		if err != nil {
			fail(w, problemOf(err))
			return
		}
		requestOf(r).caller = caller
		next.ServeHTTP(w, r)
	})
}

func (s *server) identify(r *http.Request) (*access.Caller, error) {
	sender, err := s.Authenticator.Authenticate(r)
	if err != nil {
		return nil, err
	}
	return s.Authorizer.Impersonate(r.Context(), sender, r.Header)
}

// guarded refuses what another site may have made a browser send, websockets included,
// and bounds what is read.
func (s *server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		changes := r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
		if (changes || r.Header.Get("Upgrade") != "") && s.proxies.forgeable(r) {
			fail(w, problemf(http.StatusForbidden, "the request carries cookies and no proof that it was meant: neither an Origin of this host nor an X-API-CSRF header with the value of the cookie CSRF"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, bodyLimit)
		next.ServeHTTP(w, r)
	})
}

// require fails unless the caller has the right.
func (s *server) require(ctx context.Context, caller *access.Caller, right access.Right) error {
	allowed, err := s.Authorizer.May(ctx, caller, right)
	if err != nil {
		return err
	}
	if !allowed {
		return problemf(http.StatusForbidden, "%s may not %s", caller.GetName(), right)
	}
	return nil
}
