package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/drydock-dev/drydock/hack/devcluster/process"
	"github.com/drydock-dev/drydock/hack/devcluster/state"
)

// DetachedLog is where a cluster in the background reports, in its state directory.
const DetachedLog = "devcluster.log"

// Detach runs this very command again in the background, without --detach, and
// returns when that cluster is ready. Its report is copied to out until then.
func Detach(ctx context.Context, dir state.Dir, out io.Writer) error {
	if pid, running, err := dir.Running(); err != nil {
		return err
	} else if running {
		return fmt.Errorf("the state directory %s is in use: %w (pid %d); `devcluster down` ends it", dir, state.ErrRunning, pid)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	if err := dir.Prepare(); err != nil {
		return err
	}
	name := filepath.Join(string(dir), DetachedLog)
	log, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("creating the cluster's log: %w", err)
	}
	defer log.Close() //nolint:errcheck // only the child writes to it
	// The last value of a flag counts.
	cmd := exec.Command(self, append(slices.Clone(os.Args[1:]), "--detach=false")...)
	cmd.Stdout, cmd.Stderr = log, log
	// A session of its own: it must survive this terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the cluster in the background: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return follow(ctx, dir, cmd.Process, name, ended, out)
}

// follow copies the report until the cluster is ready or has ended.
func follow(ctx context.Context, dir state.Dir, child *os.Process, log string, ended <-chan error, out io.Writer) error {
	report, err := os.Open(log)
	if err != nil {
		return fmt.Errorf("reading the cluster's log: %w", err)
	}
	defer report.Close() //nolint:errcheck // read only
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		ready := false
		if info, err := dir.ReadInfo(); err == nil {
			ready = info.PID == child.Pid && info.Ready
		}
		if _, err := io.Copy(out, report); err != nil {
			return fmt.Errorf("copying the cluster's report: %w", err)
		}
		if ready {
			return nil
		}
		select {
		case err := <-ended:
			if err == nil {
				err = errors.New("it was stopped")
			}
			return fmt.Errorf("the cluster did not come up (%w); its report: %s\n%s", err, log, process.Tail(log, 25))
		case <-ctx.Done():
			// Nobody waits for it any more.
			_ = child.Signal(syscall.SIGTERM)
			<-ended //nolint:errcheck // Stopped is what was wanted.
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
