// Command demo shows Drydock at work: it boots a development cluster, runs the
// manager against it, takes a host with virtual machines into maintenance and back,
// and tells what happens as it happens. `make demo` builds what it needs and runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// host is the one that goes into maintenance.
const host = "w1"

func main() {
	bin := flag.String("bin", "bin", "`folder` with the programs drydock and devcluster")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *bin); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run tells the whole story. What it started has ended when it returns.
func run(ctx context.Context, bin string) (err error) {
	bin, err = filepath.Abs(bin)
	if err != nil {
		return fmt.Errorf("-bin: %w", err)
	}
	dir, err := os.MkdirTemp("", "drydock-demo-")
	if err != nil {
		return fmt.Errorf("folder for the cluster: %w", err)
	}
	interrupted := ctx
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	stage := &stage{bin: bin, dir: dir, fail: fail}
	clock := &stopwatch{}
	defer func() {
		clock.lap("stopping everything")
		stage.stop()
		if err == nil {
			clock.print()
			err = os.RemoveAll(dir)
			return
		}
		if interrupted.Err() != nil {
			err = errors.Join(errors.New("interrupted; everything was stopped"), os.RemoveAll(dir))
			return
		}
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause // a program that ended is why the rest failed
		}
		err = fmt.Errorf("%w\nlogs are kept in %s", err, dir)
	}()

	clock.lap("booting the cluster")
	say("booting a control plane with four simulated hosts; the first time its programs are compiled, which takes minutes")
	if err := stage.boot(ctx); err != nil {
		return err
	}
	w, err := connect(ctx, filepath.Join(dir, "kubeconfig"))
	if err != nil {
		return err
	}
	clock.lap("starting the manager")
	say("starting bin/drydock")
	if err := stage.manager(ctx); err != nil {
		return err
	}
	if err := w.await(ctx, "the manager to lead", w.led); err != nil {
		return err
	}
	clock.lap("starting five VMs, a Deployment and a DaemonSet")
	if err := w.populate(ctx); err != nil {
		return err
	}
	w.tables("before")
	return w.perform(ctx, clock)
}

// perform takes the host into maintenance and back.
func (w *world) perform(ctx context.Context, clock *stopwatch) error {
	clock.lap("into maintenance")
	w.narrate()
	say("kubectl annotate node %s %s=true", host, maintenance.AnnotationRequested)
	if err := w.annotate(ctx, maintenance.AnnotationRequested, new("true")); err != nil {
		return err
	}
	if err := w.await(ctx, host+" to be Completed and the restarted VM to run", w.completed); err != nil {
		return err
	}
	w.tables("in maintenance: " + host + " may be rebooted now")

	clock.lap("out of maintenance")
	say("kubectl annotate node %s %s-", host, maintenance.AnnotationStatus)
	if err := w.annotate(ctx, maintenance.AnnotationStatus, nil); err != nil {
		return err
	}
	if err := w.await(ctx, host+" to be back with its VM", w.left); err != nil {
		return err
	}
	w.tables("after")
	return nil
}

// began is when the demo did; all that is said carries the time since.
var began = time.Now()

// say prints one line of the story.
func say(format string, args ...any) {
	fmt.Printf("%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}

// stopwatch measures the parts of the demo.
type stopwatch struct {
	names []string
	times []time.Time
}

// lap ends the part before and begins the named one.
func (s *stopwatch) lap(name string) {
	s.names, s.times = append(s.names, name), append(s.times, time.Now())
}

func (s *stopwatch) print() {
	fmt.Println()
	s.times = append(s.times, time.Now())
	for i, name := range s.names {
		fmt.Printf("%6.1fs  %s\n", s.times[i+1].Sub(s.times[i]).Seconds(), name)
	}
	fmt.Printf("%6.1fs  in all\n", s.times[len(s.names)].Sub(s.times[0]).Seconds())
}
