package api

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drydock-dev/drydock/pkg/api/access"
	"github.com/drydock-dev/drydock/pkg/api/feed"
)

// problem is an answer that is no success: a status and a sentence for people.
type problem struct {
	status   int
	sentence string
}

func (p *problem) Error() string { return p.sentence }

func problemf(status int, format string, args ...any) *problem {
	return &problem{status: status, sentence: fmt.Sprintf(format, args...)}
}

// problemOf turns what went wrong into an answer. What the cluster has answered to a write
// is passed on: a webhook's refusal is a sentence for the same people.
func problemOf(err error) *problem {
	var known *problem
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, access.ErrUnavailable) || errors.Is(err, feed.ErrNotKnown):
		return problemf(http.StatusServiceUnavailable, "%v", err)
	case errors.Is(err, access.ErrNobody):
		return problemf(http.StatusUnauthorized, "%v", err)
	case errors.Is(err, access.ErrNotAllowed):
		return problemf(http.StatusForbidden, "%v", err)
	case errors.As(err, &status):
		return clusterProblem(err, int(status.Status().Code))
	}
	return problemf(http.StatusInternalServerError, "%v", err)
}

func clusterProblem(err error, code int) *problem {
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		// Rights were checked, so it is an admission rule that forbids it.
		return problemf(http.StatusConflict, "%v", err)
	case apierrors.IsUnauthorized(err):
		return problemf(http.StatusInternalServerError, "the cluster does not accept Drydock's own credentials: %v", err)
	case code >= http.StatusBadRequest:
		return problemf(code, "%v", err)
	}
	return problemf(http.StatusInternalServerError, "%v", err)
}

// fail answers with a sentence. It is plain text since Harvester's dialogs print a body
// only if it is a string; an object leaves them blank.
func fail(w http.ResponseWriter, p *problem) {
	switch p.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="drydock"`)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	if p.sentence == "" {
		w.WriteHeader(p.status)
		return
	}
	http.Error(w, p.sentence, p.status)
}

// compressFrom is the size from which an answer is worth compressing.
const compressFrom = 1 << 10

// writeJSON answers with an object.
func writeJSON(w http.ResponseWriter, r *http.Request, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		fail(w, problemf(http.StatusInternalServerError, "%v", err))
		return
	}
	writeRaw(w, r, raw)
}

func writeRaw(w http.ResponseWriter, r *http.Request, raw []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Add("Vary", "Accept-Encoding")
	if len(raw) < compressFrom || !acceptsGzip(r.Header.Values("Accept-Encoding")) {
		_, _ = w.Write(raw)
		return
	}
	h.Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, _ = z.Write(raw)
	_ = z.Close()
}

func acceptsGzip(values []string) bool {
	for _, value := range values {
		for coding := range strings.SplitSeq(value, ",") {
			name, weight, _ := strings.Cut(strings.TrimSpace(coding), ";")
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
			if strings.EqualFold(strings.TrimSpace(name), "gzip") && (err != nil || q > 0) {
				return true
			}
		}
	}
	return false
}
