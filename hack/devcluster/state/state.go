// Package state is the folder a dev cluster lives in: its files, the lock that
// says whether it runs, and what `status` needs to know about it.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Dir is a state directory, as an absolute path.
type Dir string

// The files of a state directory. README.md explains them to people.
func (d Dir) file(name ...string) string {
	return filepath.Join(append([]string{string(d)}, name...)...)
}

// Kubeconfig is the administrator's.
func (d Dir) Kubeconfig() string { return d.file("kubeconfig") }

// Audit is the log of the audited users' requests.
func (d Dir) Audit() string { return d.file("audit.log") }

// AuditPolicy says whose requests are logged.
func (d Dir) AuditPolicy() string { return d.file("run", "audit-policy.yaml") }

// PKI holds authorities, certificates and keys.
func (d Dir) PKI() string { return d.file("pki") }

// Etcd holds etcd's data.
func (d Dir) Etcd() string { return d.file("etcd") }

// Run holds files that components are given or write for themselves.
func (d Dir) Run() string { return d.file("run") }

// Simulator is the simulator's folder.
func (d Dir) Simulator() string { return d.file("simulator") }

// Log is the log file of a component.
func (d Dir) Log(component string) string { return d.file("logs", component+".log") }

// Temp is the components' TMPDIR, Home their HOME: some write to both.
func (d Dir) Temp() string { return d.file("tmp") }

// Home see Temp.
func (d Dir) Home() string { return d.file("home") }

func (d Dir) lock() string { return d.file("devcluster.lock") }
func (d Dir) info() string { return d.file("cluster.json") }

// contents is everything devcluster ever creates in a state directory: a new
// cluster removes these and nothing else.
var contents = []string{
	"kubeconfig", "audit.log", "cluster.json", "pki", "etcd", "run", "simulator", "logs", "tmp", "home",
}

// ErrRunning means that another devcluster holds the directory.
var ErrRunning = errors.New("a dev cluster is running in it")

// Lock is the hold of one process on a state directory. The kernel drops it with
// the process, so a cluster that was killed leaves no stale lock.
type Lock struct{ file *os.File }

// Acquire takes the directory for this process, creating it if needed.
func (d Dir) Acquire() (*Lock, error) {
	f, err := d.openLock()
	if err != nil {
		return nil, err
	}
	if err := flockPatiently(f); err != nil {
		_ = f.Close()
		if errors.Is(err, ErrRunning) {
			return nil, fmt.Errorf("the state directory %s is in use: %w (pid %d); `devcluster down` ends it", d, err, d.pid())
		}
		return nil, fmt.Errorf("locking %s: %w", d.lock(), err)
	}
	if err := f.Truncate(0); err != nil {
		return nil, fmt.Errorf("writing the lock: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return nil, fmt.Errorf("writing the lock: %w", err)
	}
	return &Lock{file: f}, nil
}

// Release gives the directory back.
func (l *Lock) Release() error { return l.file.Close() }

// flockPatiently tries for a moment: Running holds the lock for an instant, too,
// since the kernel has no other way to ask who does.
func flockPatiently(f *os.File) error {
	var err error
	for range 10 {
		if err = flock(f); !errors.Is(err, ErrRunning) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func flock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrRunning
	}
	return err
}

// Prepare makes the directory a dev cluster's, if it is empty or not there.
func (d Dir) Prepare() error {
	f, err := d.openLock()
	if err != nil {
		return err
	}
	return f.Close()
}

// openLock opens the lock, which also marks the directory as a dev cluster's:
// without it nothing in a folder is touched, lest `up` clears one that somebody
// named by mistake.
func (d Dir) openLock() (*os.File, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, fmt.Errorf("creating the state directory: %w", err)
	}
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, fmt.Errorf("reading the state directory: %w", err)
	}
	_, err = os.Stat(d.lock())
	if len(entries) > 0 && err != nil {
		return nil, fmt.Errorf("%s is neither empty nor a dev cluster's: choose another --state-dir", d)
	}
	f, err := os.OpenFile(d.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	return f, nil
}

// Reset clears what an earlier cluster left behind: every cluster starts empty.
func (d Dir) Reset() error {
	for _, name := range contents {
		if err := os.RemoveAll(d.file(name)); err != nil {
			return fmt.Errorf("clearing the state directory: %w", err)
		}
	}
	for _, name := range []string{"pki", "etcd", "run", "simulator", "logs", "tmp", "home"} {
		if err := os.MkdirAll(d.file(name), 0o700); err != nil {
			return fmt.Errorf("preparing the state directory: %w", err)
		}
	}
	return nil
}

// Running returns the pid of the devcluster that holds the directory.
func (d Dir) Running() (pid int, running bool, err error) {
	f, err := os.OpenFile(d.lock(), os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("opening the lock: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written; closing drops the lock again
	switch err := flock(f); {
	case err == nil:
		return 0, false, nil
	case errors.Is(err, ErrRunning):
		return d.pid(), true, nil
	default:
		return 0, false, fmt.Errorf("asking for the lock: %w", err)
	}
}

func (d Dir) pid() int {
	content, err := os.ReadFile(d.lock())
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0
	}
	return pid
}

// Info is what a running cluster tells other processes about itself.
type Info struct {
	PID        int         `json:"pid"`
	Server     string      `json:"server"`
	Kubeconfig string      `json:"kubeconfig"`
	Source     string      `json:"source"`
	Started    time.Time   `json:"started"`
	ReadyAfter string      `json:"readyAfter,omitempty"`
	Ready      bool        `json:"ready"`
	Components []Component `json:"components"`
}

// Component is one process of the cluster.
type Component struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	Log  string `json:"log"`
}

// WriteInfo replaces the cluster's information in one step.
func (d Dir) WriteInfo(info Info) error {
	content, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the cluster's information: %w", err)
	}
	next := d.info() + ".next"
	if err := os.WriteFile(next, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the cluster's information: %w", err)
	}
	if err := os.Rename(next, d.info()); err != nil {
		return fmt.Errorf("writing the cluster's information: %w", err)
	}
	return nil
}

// ReadInfo returns what WriteInfo wrote last.
func (d Dir) ReadInfo() (Info, error) {
	content, err := os.ReadFile(d.info())
	if err != nil {
		return Info{}, fmt.Errorf("reading the cluster's information: %w", err)
	}
	var info Info
	if err := json.Unmarshal(content, &info); err != nil {
		return Info{}, fmt.Errorf("reading %s: %w", d.info(), err)
	}
	return info, nil
}
