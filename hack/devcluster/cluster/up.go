package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/hack/devcluster/balancer"
	"github.com/drydock-dev/drydock/hack/devcluster/controlplane"
	"github.com/drydock-dev/drydock/hack/devcluster/hosts"
	"github.com/drydock-dev/drydock/hack/devcluster/ports"
	"github.com/drydock-dev/drydock/hack/devcluster/process"
	"github.com/drydock-dev/drydock/hack/devcluster/simulator"
	"github.com/drydock-dev/drydock/hack/devcluster/state"
	"github.com/drydock-dev/drydock/hack/devcluster/toolchain"
)

// Options say what cluster to boot, and where.
type Options struct {
	Dir        state.Dir
	Tools      toolchain.Toolchain
	Hosts      hosts.Counts
	AuditUsers []string
	// KubernetesVerbosity and KubeVirtVerbosity are klog levels.
	KubernetesVerbosity int
	KubeVirtVerbosity   uint
	Report              *Report
}

var errStopping = errors.New("the cluster is being stopped")

// simulatorLog is the name of the log of what runs in this process.
const simulatorLog = "simulator"

// bootTimeout bounds each wait for readiness. It is far beyond what a boot takes,
// so that a loaded machine is slow instead of broken.
const bootTimeout = 3 * time.Minute

// Up boots a cluster, and keeps it until ctx ends or a component does. It returns
// nil if it was ctx.
func Up(ctx context.Context, opts Options) (err error) {
	lock, err := opts.Dir.Acquire()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := opts.Dir.Reset(); err != nil {
		return err
	}
	pool := &ports.Pool{}
	defer func() { err = errors.Join(err, pool.Close()) }()

	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	c := &cluster{Options: opts, ports: pool, lifetime: running, fail: fail}
	c.info = state.Info{PID: os.Getpid(), Kubeconfig: opts.Dir.Kubeconfig(), Source: opts.Tools.Source, Started: time.Now()}
	c.supervisor = &supervisor{fail: fail, changed: c.publish, report: opts.Report}
	bootErr := c.boot(running)
	if bootErr == nil {
		c.announce()
		<-running.Done()
	}
	// The first cause is the one to tell; what it broke elsewhere is noise.
	cause := context.Cause(running)
	if cause == nil {
		cause = bootErr
	}
	// What runs in this process ends before what it talks to.
	fail(errStopping)
	c.inProcess.Wait()
	c.supervisor.stop()
	if ctx.Err() != nil {
		opts.Report.Line("stopped")
		return nil
	}
	return cause
}

// cluster is one that boots or runs.
type cluster struct {
	Options
	ports      *ports.Pool
	supervisor *supervisor
	// lifetime ends with the cluster, where a boot's context ends with the boot.
	lifetime  context.Context
	fail      func(error)
	inProcess sync.WaitGroup

	identity *controlplane.Identity
	config   controlplane.Config
	admin    *rest.Config
	kube     kubernetes.Interface
	programs programs

	mu   sync.Mutex
	info state.Info
}

// publish tells other processes what runs.
func (c *cluster) publish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.info.Components = c.supervisor.components(c.Dir)
	if err := c.Dir.WriteInfo(c.info); err != nil {
		c.fail(err)
	}
}

func (c *cluster) announce() {
	c.mu.Lock()
	c.info.Ready, c.info.ReadyAfter = true, c.Report.Elapsed().Round(100*time.Millisecond).String()
	c.mu.Unlock()
	c.publish()
	var total float64
	components := c.supervisor.components(c.Dir)
	for _, component := range components {
		mib, _ := process.ResidentMiB(component.PID)
		total += mib
	}
	c.Report.Line("ready: %.0f MiB in %d processes", total, len(components))
	c.Report.Line("kubeconfig: %s", c.Dir.Kubeconfig())
}

// startInProcess runs the simulator and the balancer. They write one log.
func (c *cluster) startInProcess(ctx context.Context, handler *rest.Config) error {
	file, err := os.OpenFile(c.Dir.Log(simulatorLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the simulator's log: %w", err)
	}
	log := slog.New(slog.NewTextHandler(file, nil))
	var users sync.WaitGroup
	run := func(name string, part func(context.Context) error) {
		users.Add(1)
		c.inProcess.Go(func() {
			defer users.Done()
			if err := part(ctx); err != nil && ctx.Err() == nil {
				c.fail(fmt.Errorf("the %s ended: %w\nlog: %s\n%s", name, err, file.Name(), process.Tail(file.Name(), 12)))
			}
		})
	}
	run("simulator", func(ctx context.Context) error {
		return simulator.Run(ctx, simulator.Options{
			Admin: rest.CopyConfig(c.admin), Handler: handler, StateDir: c.Dir.Simulator(), Log: log,
		})
	})
	run("balancer", func(ctx context.Context) error { return balancer.Run(ctx, c.kube, log) })
	c.inProcess.Go(func() {
		users.Wait()
		_ = file.Close() // a log
	})
	return nil
}
