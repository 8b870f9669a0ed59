package simulator

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
)

// A loop is one concern's queue and its workers. Delays are entries in the
// queue, never timers or goroutines of an object's own: with 500 VMs on two
// cores those would cost more than the work.
type loop struct {
	name      string
	workers   int
	queue     workqueue.TypedRateLimitingInterface[string]
	reconcile func(ctx context.Context, key string) (again time.Duration, err error)
	log       *slog.Logger
}

func newLoop(name string, workers int, log *slog.Logger, reconcile func(context.Context, string) (time.Duration, error)) *loop {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, 5*time.Second)
	return &loop{
		name: name, workers: workers, log: log.With("loop", name), reconcile: reconcile,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[string]{Name: name}),
	}
}

// run works until ctx ends and every worker has returned.
func (l *loop) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range l.workers {
		workers.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	l.queue.ShutDown()
	workers.Wait()
}

func (l *loop) next(ctx context.Context) bool {
	key, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(key)
	again, err := l.reconcile(ctx, key)
	switch {
	case err == nil:
		l.queue.Forget(key)
		if again > 0 {
			l.queue.AddAfter(key, again)
		}
	case ctx.Err() != nil:
	default:
		// A conflict or a vanished object is how concurrent writers meet, and
		// says nothing to a reader of the log.
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			l.log.Warn("will try again", "key", key, "error", err)
		}
		l.queue.AddRateLimited(key)
	}
	return true
}

// Sooner combines delays: the shorter one that is set. Zero means "not needed".
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
