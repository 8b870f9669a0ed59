package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// attempt is a testing.TB outside of `go test`, for the cluster kit: what fails ends
// the attempt, and what was made is removed when it ends. Only what the kit uses is
// here; the rest of the interface is nil.
type attempt struct {
	testing.TB
	name string
	ctx  context.Context

	mu       sync.Mutex
	cleanups []func()
	err      error
}

var errInterrupted = errors.New("interrupted")

// task runs body as an attempt. As in a test, the attempt's context ends before the
// cleaning up begins.
func task(ctx context.Context, name string, body func(t *attempt)) error {
	inner, cancel := context.WithCancel(ctx)
	t := &attempt{name: name, ctx: inner}
	for _, step := range []func(){func() { body(t) }, func() { cancel(); t.cleanUp() }} {
		done := make(chan struct{})
		go func() {
			// Deferred, since FailNow ends the goroutine.
			defer close(done)
			step()
		}()
		<-done
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	return t.err
}

// part runs body as an attempt of its own within this one, which fails with it.
func (t *attempt) part(name string, body func(t *attempt)) {
	if err := task(t.ctx, name, body); err != nil {
		t.Fatal(err)
	}
}

func (t *attempt) cleanUp() {
	t.mu.Lock()
	cleanups := slices.Clone(t.cleanups)
	t.mu.Unlock()
	for _, cleanup := range slices.Backward(cleanups) {
		cleanup()
	}
}

// Helper does nothing: lines are not numbered.
func (t *attempt) Helper() {}

// Name names the attempt.
func (t *attempt) Name() string { return t.name }

// Context ends with the attempt, and when the user interrupts.
func (t *attempt) Context() context.Context { return t.ctx }

// Cleanup runs f when the attempt ends, last one first.
func (t *attempt) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// TempDir makes a folder that ends with the attempt.
func (t *attempt) TempDir() string {
	dir, err := os.MkdirTemp("", "drydock-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Failed tells the kit to explain itself, which nobody wants to read who has
// interrupted.
func (t *attempt) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err != nil && !errors.Is(t.err, errInterrupted)
}

// Logf writes to standard error.
func (t *attempt) Logf(format string, args ...any) {
	if t.ctx.Err() == nil || t.Failed() {
		fmt.Fprintf(os.Stderr, "%s %s: %s\n", time.Now().Format(time.TimeOnly), t.name, fmt.Sprintf(format, args...))
	}
}

// Fatalf ends the attempt.
func (t *attempt) Fatalf(format string, args ...any) { t.fail(fmt.Errorf(format, args...)) }

// Fatal ends the attempt.
func (t *attempt) Fatal(args ...any) {
	if len(args) == 1 {
		if err, ok := args[0].(error); ok {
			t.fail(err)
		}
	}
	t.fail(errors.New(fmt.Sprint(args...)))
}

func (t *attempt) fail(err error) {
	if t.ctx.Err() != nil {
		err = errInterrupted
	}
	t.mu.Lock()
	if t.err == nil {
		t.err = err
		if !errors.Is(err, errInterrupted) {
			t.err = fmt.Errorf("%s: %w", t.name, err)
		}
	}
	t.mu.Unlock()
	runtime.Goexit()
}
