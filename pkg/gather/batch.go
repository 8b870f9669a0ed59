package gather

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Batch lists nodes for many at once: whoever asks while a list is being read shares the
// next one, which begins after the question, so that nobody is told of a time before it. At
// most one list is read at a time, whatever the number of questions.
type Batch struct {
	nodes LiveNodes

	mu      sync.Mutex
	next    *flight
	reading bool
}

type flight struct {
	done chan struct{}
	list *corev1.NodeList
	err  error
}

// batchTime limits a list, which outlives the caller that began it.
const batchTime = 20 * time.Second

// NewBatch returns a Batch that reads from the given source.
func NewBatch(nodes LiveNodes) *Batch { return &Batch{nodes: nodes} }

// List implements [LiveNodes]; the options are not used, since the list is for everybody.
// Nobody may change what it returns.
func (b *Batch) List(ctx context.Context, _ metav1.ListOptions) (*corev1.NodeList, error) {
	b.mu.Lock()
	if b.next == nil {
		b.next = &flight{done: make(chan struct{})}
	}
	f := b.next
	if !b.reading {
		b.reading = true
		go b.read(context.WithoutCancel(ctx))
	}
	b.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.done:
		return f.list, f.err
	}
}

// read goes on as long as somebody waits.
func (b *Batch) read(ctx context.Context) {
	for {
		b.mu.Lock()
		f := b.next
		b.next = nil
		b.reading = f != nil
		b.mu.Unlock()
		if f == nil {
			return
		}
		f.list, f.err = b.list(ctx)
		close(f.done)
	}
}

func (b *Batch) list(ctx context.Context) (*corev1.NodeList, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	return b.nodes.List(ctx, metav1.ListOptions{})
}
