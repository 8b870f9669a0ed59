package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Spec says how to run one component.
type Spec struct {
	// Name is the component's name in messages and in the state file.
	Name string
	// Path is the program; Args do not repeat it.
	Path string
	Args []string
	// Env replaces the environment, Dir is the working directory.
	Env []string
	Dir string
	// Log is the file that receives both output streams.
	Log string
	// Grace is how long the program may take to end after SIGTERM.
	Grace time.Duration
}

// Process is a running component.
type Process struct {
	Spec Spec
	// PID stays valid to print after the end, but names nobody any more.
	PID int

	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start runs the component. It ends with this program, even if this program is
// killed with SIGKILL.
func Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", spec.Name, err)
	}
	// The child has its own copy of the descriptor.
	defer log.Close() //nolint:errcheck // nothing was written through this one
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		// A group of its own: the terminal's Ctrl-C must reach devcluster alone,
		// which then stops its components in order.
		Setpgid: true,
	}
	if err := startOnLivingThread(cmd); err != nil {
		return nil, fmt.Errorf("starting %s (%s): %w", spec.Name, spec.Path, err)
	}
	p := &Process{Spec: spec, PID: cmd.Process.Pid, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Done is closed when the component has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err describes an ended component: its name, how it ended, its log file and
// the log's last lines. It must not be called before Done is closed.
func (p *Process) Err() *EndedError {
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return &EndedError{Component: p.Spec.Name, PID: p.PID, How: how, Log: p.Spec.Log, Tail: Tail(p.Spec.Log, tailLines)}
}

// EndedCleanly tells whether an ended component left with exit status 0.
func (p *Process) EndedCleanly() bool { return p.err == nil }

// Stop asks the component to end, waits for its grace period, kills it by pid,
// and returns when it is gone.
func (p *Process) Stop() {
	if p.ended() {
		return
	}
	// An error means that it ended in this very moment.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(p.Spec.Grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return
	case <-timer.C:
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *Process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// probeEvery is how often a component that boots is asked whether it is ready.
const probeEvery = 50 * time.Millisecond

// Await asks probe again and again until it returns nil. It fails as soon as the
// component ends, and when ctx ends it reports the probe's last answer.
func (p *Process) Await(ctx context.Context, probe func(context.Context) error) error {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	var last error
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := probe(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-p.done:
			return p.Err()
		case <-ctx.Done():
			return p.notReady(ctx, last)
		case <-ticker.C:
		}
	}
}

func (p *Process) notReady(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("%s is not ready: %w\nlog: %s\n%s", p.Spec.Name, last, p.Spec.Log, Tail(p.Spec.Log, tailLines))
	}
	return fmt.Errorf("waiting for %s: %w", p.Spec.Name, cause)
}

// EndedError is a component that ended on its own.
type EndedError struct {
	Component string
	PID       int
	How       string
	Log       string
	Tail      string
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("%s (pid %d) ended: %s\nlog: %s\n%s", e.Component, e.PID, e.How, e.Log, e.Tail)
}
