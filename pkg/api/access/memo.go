package access

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
)

// memo remembers answers for a while. Callers that ask for the same at the same time
// share one question; an error is not remembered.
type memo[T any] struct {
	cache  *utilcache.LRUExpireCache
	flight singleflight.Group
}

// memoSize bounds what strangers can make the process remember.
const memoSize = 8192

// askTime limits a question, which outlives the caller that began it: others may wait
// for its answer.
const askTime = 10 * time.Second

func newMemo[T any]() *memo[T] {
	return &memo[T]{cache: utilcache.NewLRUExpireCache(memoSize)}
}

// get returns the remembered answer for the key, or asks. keep says for how long the
// answer counts.
func (m *memo[T]) get(ctx context.Context, key string, keep func(T) time.Duration, ask func(context.Context) (T, error)) (T, error) {
	if known, ok := m.cache.Get(key); ok {
		return known.(T), nil // only this method adds
	}
	answer := m.flight.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
		defer cancel()
		got, err := ask(ctx)
		if err == nil {
			m.cache.Add(key, got, keep(got))
		}
		return got, err
	})
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case result := <-answer:
		return result.Val.(T), result.Err // only the function above returns
	}
}
