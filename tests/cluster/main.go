package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// EnvStateDir names the variable that makes tests use a running cluster.
const EnvStateDir = "DRYDOCK_DEVCLUSTER"

// EnvShared names the variable with folders of clusters that packages take in turns,
// separated like those of PATH. A package has a cluster to itself, since its manager acts
// on all of it; the first that takes a folder boots the cluster, in the folder "state" in
// it, and whoever set the variable ends it.
const EnvShared = "DRYDOCK_DEVCLUSTERS"

// EnvProgram names the variable that makes tests boot clusters with a devcluster that is
// built already, which saves each package some seconds of linking.
const EnvProgram = "DRYDOCK_DEVCLUSTER_PROGRAM"

// shared is the one cluster of this test binary.
var shared = &process{}

// up are the flags of `devcluster up`: the hosts beside the three control planes that the
// documentation speaks of, and an audit log of the account of an installation.
var up = []string{"--workers", "1", "--audit-user", Account}

// Main runs the package's tests and ends the cluster that was booted for them. m is a
// testing.M, or what a program that is no test does with a cluster.
func Main(m interface{ Run() int }) int {
	code := m.Run()
	if manifest, yes := substitute(managerUser); yes && shared.dir != "" {
		if err := removeAccount(shared.dir, manifest); err != nil {
			fmt.Fprintln(os.Stderr, "removing the account:", err)
			code = max(code, 1)
		}
	}
	if err := shared.stop(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the dev cluster:", err)
		return max(code, 1)
	}
	return code
}

// process is the dev cluster's process, and the folder it lives in.
type process struct {
	once   sync.Once
	err    error
	dir    string
	turn   *os.File
	temp   string
	binary string
	cmd    *exec.Cmd
	ended  chan struct{}

	// issuing guards program and tempDir once tests run in parallel.
	issuing sync.Mutex
}

// stateDir boots the cluster at the first call, if none runs that can be used.
func (p *process) stateDir() (string, error) {
	p.once.Do(func() {
		if p.dir = os.Getenv(EnvStateDir); p.dir != "" {
			_, p.err = readInfo(p.dir)
		} else if folders := filepath.SplitList(os.Getenv(EnvShared)); len(folders) > 0 {
			p.err = p.takeTurn(folders)
		} else {
			p.err = p.boot()
		}
	})
	return p.dir, p.err
}

func upIn(dir string, flags ...string) []string {
	return slices.Concat([]string{"up", "--state-dir", dir, "--source", sourceDir()}, up, flags)
}

// info is what this package needs of the state directory's cluster.json.
type info struct {
	PID        int    `json:"pid"`
	Ready      bool   `json:"ready"`
	Kubeconfig string `json:"kubeconfig"`
}

func readInfo(dir string) (info, error) {
	content, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if err != nil {
		return info{}, fmt.Errorf("reading the dev cluster's state: %w", err)
	}
	var i info
	if err := json.Unmarshal(content, &i); err != nil {
		return info{}, fmt.Errorf("reading the dev cluster's state: %w", err)
	}
	return i, nil
}

// tempDir makes the folder for state and program at the first call.
func (p *process) tempDir() (string, error) {
	if p.temp != "" {
		return p.temp, nil
	}
	var err error
	if p.temp, err = os.MkdirTemp("", "drydock-devcluster-"); err != nil {
		return "", fmt.Errorf("making a folder for the dev cluster: %w", err)
	}
	return p.temp, nil
}

// program builds devcluster at the first call. `go run` would put itself between
// this process and the cluster, and not pass on its death.
func (p *process) program() (string, error) {
	if p.binary == "" {
		p.binary = os.Getenv(EnvProgram)
	}
	if p.binary != "" {
		return p.binary, nil
	}
	temp, err := p.tempDir()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(temp, "devcluster")
	build := exec.Command("go", "-C", sourceDir(), "build", "-o", binary, "./cmd/devcluster")
	// As devcluster builds its programs, so that both share the Go cache.
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building devcluster: %w\n%s", err, output)
	}
	p.binary = binary
	return binary, nil
}

// sourceDir is hack/devcluster, found from this file's own place.
func sourceDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "hack", "devcluster")
}

func (p *process) boot() error {
	program, err := p.program()
	if err != nil {
		return err
	}
	temp, err := p.tempDir()
	if err != nil {
		return err
	}
	p.dir = filepath.Join(temp, "state")
	report, err := os.Create(filepath.Join(temp, "report"))
	if err != nil {
		return fmt.Errorf("creating the dev cluster's report: %w", err)
	}
	p.cmd = exec.Command(program, upIn(p.dir)...)
	p.cmd.Stdout, p.cmd.Stderr = report, report
	if testing.Verbose() {
		p.cmd.Stdout = io.MultiWriter(report, os.Stderr)
		p.cmd.Stderr = p.cmd.Stdout
	}
	if err := p.start(report); err != nil {
		return fmt.Errorf("starting devcluster: %w", err)
	}
	for {
		if i, err := readInfo(p.dir); err == nil && i.Ready {
			return nil
		}
		select {
		case <-p.ended:
			return p.died(report.Name())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *process) died(report string) error {
	content, err := os.ReadFile(report)
	if err != nil {
		return fmt.Errorf("the dev cluster did not come up, and its report cannot be read: %w", err)
	}
	return fmt.Errorf("the dev cluster did not come up:\n%s", content)
}

// start runs the command so that it dies with this process, however that ends:
// `go test` kills a test that takes too long. The kernel looks at the thread that
// forked, so a thread that is never given back does it. The report stays open until the
// end: with -v it is written here, and a cluster that nobody reads dies of its next line.
func (p *process) start(report io.Closer) error {
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p.ended = make(chan struct{})
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := p.cmd.Start(); err != nil {
			_ = report.Close()
			started <- err
			return
		}
		started <- nil
		_ = p.cmd.Wait() // its report says how it ended
		_ = report.Close()
		close(p.ended)
		select {} // keeps the thread
	}()
	return <-started
}

// stop ends the cluster, if this process started one, and removes its folder,
// whose logs are kept if a test failed.
func (p *process) stop(failed bool) error {
	if p.ended != nil {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("asking devcluster to end: %w", err)
		}
		select {
		case <-p.ended:
		case <-time.After(30 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	}
	if p.temp == "" {
		return nil
	}
	if failed && p.cmd != nil {
		fmt.Fprintln(os.Stderr, "the dev cluster's logs are kept in", p.dir)
		return os.RemoveAll(filepath.Join(p.dir, "etcd"))
	}
	return os.RemoveAll(p.temp)
}
