package cluster

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Report tells a person what happens and how long each step took.
type Report struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
}

// NewReport starts the clock.
func NewReport(out io.Writer) *Report { return &Report{out: out, begin: time.Now()} }

// Line prints one line behind the time since the start.
func (r *Report) Line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Progress that cannot be printed is no reason to stop.
	_, _ = fmt.Fprintf(r.out, "%6.1fs  %s\n", time.Since(r.begin).Seconds(), fmt.Sprintf(format, args...))
}

// Step runs one step and prints its name and time if it succeeds.
func (r *Report) Step(name string, run func() error) error {
	begin := time.Now()
	if err := run(); err != nil {
		return err
	}
	r.Line("%-42s %5.1fs", name, time.Since(begin).Seconds())
	return nil
}

// Elapsed is the time since the start.
func (r *Report) Elapsed() time.Duration { return time.Since(r.begin) }
