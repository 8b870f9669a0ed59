// Command bench measures what a drain costs: the floor (cordon, one eviction for each
// launcher pod, all at once, and then only watching), `kubectl drain`, and Drydock, one
// after the other on one dev cluster, from the same state. Absolute times mean little
// on a busy machine; ratios within one run do.
//
//	go run ./tests/bench                     # 10 VMs × 10 s and × 30 s, six nodes at once, 50 requested at once, 500 VMs relabelled, planning
//	go run ./tests/bench -quick              # 6 VMs × 3 s, for trying
//	go run ./tests/bench -scenarios 20x10 -trace
//
// The cluster is its own and ends with it; with DRYDOCK_DEVCLUSTER set to the state
// directory of a running one, that one is used.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

// options are the flags.
type options struct {
	scenarios []scenario
	// relabel and together are how many VMs are relabelled, and how many nodes requested,
	// at once; 0 for not at all.
	relabel, together int
	plan              bool
	trace             bool
	logs              string
}

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 2
	}
	// The kit asks the testing package whether it is to be short or verbose.
	testing.Init()
	if err := flag.CommandLine.Parse(nil); err != nil {
		return 2
	}
	// Watches that end with a measurement are nothing to be told of.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second interrupt ends the program without waiting for the cleaning up.
	context.AfterFunc(ctx, stop)
	code := cluster.Main(program{ctx, o})
	manager.Remove()
	if ctx.Err() != nil {
		return 130
	}
	return code
}

func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	names := flags.String("scenarios", "10x10,10x30,six", "comma-separated: `NxS` is N VMs on one node whose migrations take S seconds, \"six\" is six nodes at once with 24 VMs × 10 s")
	quick := flags.Bool("quick", false, "6 VMs × 3 s and nothing else, for trying")
	o := options{}
	flags.IntVar(&o.relabel, "relabel", 500, "also label `N` VMs at once and measure when VMIs and pods have followed; 0 for not")
	flags.IntVar(&o.together, "together", 50, "also request maintenance of `N` nodes at once and measure when the last drain has started; 0 for not")
	flags.BoolVar(&o.plan, "plan", true, "also measure planning, in memory")
	flags.BoolVar(&o.trace, "trace", false, "print the stations of each migration")
	flags.StringVar(&o.logs, "logs", "", "`FOLDER` in which the manager's log and each tool's requests are left")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *quick {
		*names, o.plan, o.relabel, o.together = "6x3", false, 0, 0
	}
	for name := range strings.SplitSeq(*names, ",") {
		if strings.TrimSpace(name) == "" {
			continue
		}
		s, err := parseScenario(strings.TrimSpace(name))
		if err != nil {
			return o, err
		}
		o.scenarios = append(o.scenarios, s)
	}
	return o, nil
}

// program is what cluster.Main runs.
type program struct {
	ctx context.Context
	options
}

// Run measures everything and returns the exit status.
func (p program) Run() int {
	began := time.Now()
	var times waits
	err := task(p.ctx, "bench", func(t *attempt) {
		if err := build(); err != nil {
			t.Fatal(err)
		}
		for n, s := range p.scenarios {
			// The one who comes first is a different one each time: caches are cold for it.
			results := p.measure(t, s, n)
			fmt.Println(s.table(results))
			times.add(results)
		}
		if p.together > 0 {
			t.part(fmt.Sprintf("%d nodes requested at once", p.together), func(t *attempt) { p.atOnce(t, p.together) })
		}
		if p.relabel > 0 {
			t.part(fmt.Sprintf("%d VMs relabelled", p.relabel), func(t *attempt) { p.relabelVMs(t, p.relabel) })
		}
	})
	fmt.Print(times.String())
	if err == nil && p.plan {
		err = planning(p.ctx)
	}
	if errors.Is(err, errInterrupted) {
		return 0 // not a failure, after which the cluster's logs would be kept
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	fmt.Printf("took %s\n", time.Since(began).Round(time.Second))
	return 0
}

// planning runs the benchmarks of the deciding core, which have no servers.
func planning(ctx context.Context) error {
	_, file, _, _ := runtime.Caller(0)
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", ".", "-benchmem", "./pkg/plan")
	cmd.Dir = filepath.Join(filepath.Dir(file), "..", "..")
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("planning: %w\n%s", err, output)
	}
	fmt.Printf("Planning, in memory (aim: at most 10 ms for a node with 200 VMs among 1,000 nodes and 10,000 VMs)\n\n%s\n", output)
	return nil
}
