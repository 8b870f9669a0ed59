package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// stage holds the programs that the demo runs.
type stage struct {
	bin, dir string
	// fail ends the demo because a program did.
	fail     context.CancelCauseFunc
	children []*child
}

// boot starts the dev cluster and returns when it is ready, which it says by naming
// its kubeconfig.
func (s *stage) boot(ctx context.Context) error {
	report, writer := io.Pipe()
	cluster, err := s.start("devcluster", writer, "up", "--state-dir", s.dir, "--control-planes", "3", "--workers", "1")
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(report)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "kubeconfig:") {
				close(ready)
				break
			}
			fmt.Println("        |" + lines.Text())
		}
		_, _ = io.Copy(io.Discard, report) // or it could not go on
	}()
	select {
	case <-ready:
		return nil
	case <-cluster.ended:
		return fmt.Errorf("the dev cluster did not come up: %w", cluster.err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// manager starts bin/drydock as a user of its own, on free ports of loopback.
func (s *stage) manager(ctx context.Context) error {
	kubeconfig := filepath.Join(s.dir, "drydock.kubeconfig")
	issue := exec.CommandContext(ctx, filepath.Join(s.bin, "devcluster"), "kubeconfig", "--state-dir", s.dir, "--user", "drydock", "--output", kubeconfig)
	if output, err := issue.CombinedOutput(); err != nil {
		return fmt.Errorf("kubeconfig for the manager: %w\n%s", err, output)
	}
	log, err := os.Create(filepath.Join(s.dir, "drydock.log"))
	if err != nil {
		return fmt.Errorf("the manager's log: %w", err)
	}
	_, err = s.start("drydock", log, "--kubeconfig", kubeconfig, "--webhook=false", "--api=false",
		"--metrics-bind-address", "127.0.0.1:0", "--health-bind-address", "127.0.0.1:0", "--webhook=false")
	return err
}

// child is a program that runs.
type child struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	err   error
}

// start runs a program until stop. One that ends before ends the demo.
func (s *stage) start(name string, out io.WriteCloser, args ...string) (*child, error) {
	c := &child{name: name, cmd: exec.Command(filepath.Join(s.bin, name), args...), ended: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = out, out
	// A group of its own, so that Ctrl-C reaches the demo alone, which then stops its
	// programs in order. If the demo is killed, the kernel ends them: it looks at the
	// thread that forked, so that one must stay.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := c.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = c.cmd.Wait()
		_ = out.Close() // a report or a log
		c.err = errors.Join(fmt.Errorf("%s ended by itself", name), err)
		close(c.ended)
		s.fail(c.err)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	s.children = append(s.children, c)
	return c, nil
}

// patience is how long a program has to end by itself.
const patience = 30 * time.Second

// stop ends the programs, the last one first.
func (s *stage) stop() {
	for i := len(s.children) - 1; i >= 0; i-- {
		c := s.children[i]
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // one that has ended needs none
		select {
		case <-c.ended:
		case <-time.After(patience):
			_ = c.cmd.Process.Kill()
			<-c.ended
		}
	}
}
