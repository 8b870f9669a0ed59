package balancer

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync/atomic"
	"time"
)

// Like a kubelet's probe with its defaults, only more often: one failure is no news of a
// backend on a busy machine.
const (
	checkEvery       = 250 * time.Millisecond
	checkTimeout     = time.Second
	failureThreshold = 3
)

// checks verifies no certificate: what it learns decides between local processes
// that the Service's owner named, and nothing secret is sent.
var checks = &http.Client{
	Timeout:   checkTimeout,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

// backend is a target and what is known of it.
type backend struct {
	Target
	ready atomic.Bool
	stop  context.CancelFunc
}

func newBackend(target Target) *backend {
	ctx, cancel := context.WithCancel(context.Background())
	b := &backend{Target: target, stop: cancel}
	if target.Readiness == "" {
		b.ready.Store(true)
		return b
	}
	go b.check(ctx)
	return b
}

func (b *backend) check(ctx context.Context) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for failures := 0; ; {
		if answers(ctx, b.Readiness) {
			failures = 0
			b.ready.Store(true)
		} else if failures++; failures >= failureThreshold {
			b.ready.Store(false)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := checks.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
