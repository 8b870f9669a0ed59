// Package manager runs the real manager, as its user would, against a dev cluster.
package manager

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long the manager may take to become ready.
const patience = time.Minute

// Manager is a running manager process.
type Manager struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error

	mu      sync.Mutex
	lines   []Line
	changed chan struct{}
}

// Line is a line of its log.
type Line struct {
	Message string `json:"msg"`
	Level   string `json:"level"`
	Address string `json:"address"`
	VM      string `json:"vm"`
	Node    string `json:"node"`
	Raw     string `json:"-"`
}

// EnvProgram names the variable that makes tests use a manager that is built already,
// which saves half a minute of linking on a busy machine.
const EnvProgram = "DRYDOCK_MANAGER"

// built is the program once there is one to remove.
var built string

var build = sync.OnceValues(func() (string, error) {
	if program := os.Getenv(EnvProgram); program != "" {
		return program, nil
	}
	dir, err := os.MkdirTemp("", "drydock-manager-")
	if err != nil {
		return "", fmt.Errorf("making a folder for the manager: %w", err)
	}
	_, file, _, _ := runtime.Caller(0)
	binary := filepath.Join(dir, "drydock")
	// The program that is tested is the one that is shipped.
	cmd := exec.Command("make", "BIN="+dir, binary)
	cmd.Dir = filepath.Join(filepath.Dir(file), "..", "..")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the manager: %w\n%s", err, output)
	}
	built = binary
	return binary, nil
})

// Remove deletes the program that Start built; for TestMain.
func Remove() {
	if built != "" {
		_ = os.RemoveAll(filepath.Dir(built))
	}
}

// Start runs a manager and returns once it leads. It ends with the test; with Launch
// it is the caller's.
func Start(t testing.TB, kubeconfig string, flags ...string) *Manager {
	t.Helper()
	m, err := Launch(kubeconfig, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Kill()
		if t.Failed() {
			t.Logf("the manager's log:\n%s", m.Log())
		}
	})
	if err := m.AwaitLeading(); err != nil {
		t.Fatal(err)
	}
	return m
}

// Launch runs a manager and returns at once. It dies with this process.
func Launch(kubeconfig string, flags ...string) (*Manager, error) {
	binary, err := build()
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"--kubeconfig", kubeconfig, "--log-format", "json", "--log-level", "debug",
		"--health-bind-address", "127.0.0.1:0", "--metrics-bind-address", "127.0.0.1:0",
		// Most tests are about something else, and count requests.
		"--webhook=false", "--api=false", "--webhook-bind-address", "127.0.0.1:0", "--api-bind-address", "127.0.0.1:0", "--shutdown-delay", "0s",
	}, flags...)
	m := &Manager{cmd: exec.Command(binary, args...), ended: make(chan struct{}), changed: make(chan struct{})}
	// What makes the control plane cheaper is not how a manager runs elsewhere.
	m.cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GOGC=") })
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe for the manager's log: %w", err)
	}
	m.cmd.Stdout, m.cmd.Stderr = write, write
	started, followed := make(chan error), make(chan struct{})
	go func() {
		// The kernel sends the death signal when the thread ends that forked.
		runtime.LockOSThread()
		err := m.cmd.Start()
		_ = write.Close()
		started <- err
		if err != nil {
			return
		}
		m.err = m.cmd.Wait()
		<-followed // what it said last is in the log
		close(m.ended)
		select {} // keeps the thread
	}()
	go func() {
		defer close(followed)
		m.follow(read)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting the manager: %w", err)
	}
	return m, nil
}

func (m *Manager) follow(log io.Reader) {
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := Line{Raw: scanner.Text()}
		if json.Unmarshal(scanner.Bytes(), &line) != nil {
			line.Message = line.Raw
		}
		m.mu.Lock()
		m.lines = append(m.lines, line)
		close(m.changed)
		m.changed = make(chan struct{})
		m.mu.Unlock()
	}
}

// AwaitLine returns the first line that satisfies the condition, and an error when the
// manager ends or nothing comes in time.
func (m *Manager) AwaitLine(condition func(Line) bool) (Line, error) {
	return m.AwaitTimes(1, condition)
}

// AwaitTimes returns the n-th line that satisfies the condition.
func (m *Manager) AwaitTimes(n int, condition func(Line) bool) (Line, error) {
	deadline := time.After(patience)
	for {
		m.mu.Lock()
		lines, changed := m.lines, m.changed
		m.mu.Unlock()
		seen := 0
		for _, line := range lines {
			if condition(line) {
				seen++
			}
			if seen == n {
				return line, nil
			}
		}
		select {
		case <-changed:
		case <-m.ended:
			return Line{}, fmt.Errorf("the manager has ended (%w):\n%s", m.err, m.Log())
		case <-deadline:
			return Line{}, fmt.Errorf("no such line in the manager's log within %s:\n%s", patience, m.Log())
		}
	}
}

// AwaitLeading returns once the manager acts.
func (m *Manager) AwaitLeading() error {
	_, err := m.AwaitLine(func(l Line) bool { return l.Message == "leading" })
	return err
}

// Leads reports that it has begun to act; it ends when it no longer may.
func (m *Manager) Leads() bool {
	return slices.ContainsFunc(m.Lines(), func(l Line) bool { return l.Message == "leading" })
}

// Address is where it serves health or metrics.
func (m *Manager) Address(what string) (string, error) {
	line, err := m.AwaitLine(func(l Line) bool { return l.Message == "serving "+what })
	return line.Address, err
}

// Get reads a page of it and returns status and body.
func (m *Manager) Get(t testing.TB, what, path string) (int, string) {
	t.Helper()
	address, err := m.Address(what)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // only read from
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// Lines returns the log so far.
func (m *Manager) Lines() []Line {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.lines)
}

// Log returns the log so far as text.
func (m *Manager) Log() string {
	var b strings.Builder
	for _, line := range m.Lines() {
		b.WriteString(line.Raw)
		b.WriteByte('\n')
	}
	return b.String()
}

// PID is its process id.
func (m *Manager) PID() int { return m.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (m *Manager) Ended() <-chan struct{} { return m.ended }

// Kill ends it with SIGKILL, at whatever instruction it is, and waits for its end.
func (m *Manager) Kill() {
	_ = m.cmd.Process.Kill()
	<-m.ended
}

// Terminate ends it with SIGTERM and returns how long that took and how it ended.
func (m *Manager) Terminate() (time.Duration, error) {
	began := time.Now()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("terminating the manager: %w", err)
	}
	select {
	case <-m.ended:
	case <-time.After(patience):
		m.Kill()
		return time.Since(began), fmt.Errorf("the manager did not end within %s", patience)
	}
	return time.Since(began), m.err
}
