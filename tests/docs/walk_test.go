package docs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Every block of the README is in a section of which some test knows.
func TestTheREADMEHasNoOtherCommands(t *testing.T) {
	p := read(t, readme)
	demo, try := p.commands("See it"), p.commands(tryIt)
	if all := len(p.commands()); len(demo) != 1 || len(try) != 2 || all != len(demo)+len(try)+len(p.commands("Drydock")) {
		t.Errorf("README.md has %d blocks, %d to see it and %d to try it: say here who runs the others", all, len(demo), len(try))
	}
}

// The README, followed in a new directory with nothing but its files: the demo, and a
// cluster that stays, with the manager in one terminal and kubectl in another. A new
// directory is compiled anew, and two clusters are booted: `make walk` asks for it.
func TestANewcomersWalk(t *testing.T) {
	if os.Getenv("DRYDOCK_WALK") == "" {
		t.Skip("set DRYDOCK_WALK, as make walk does")
	}
	p := read(t, readme)
	demo, try := p.commands("See it"), p.commands(tryIt)
	dir := checkout(t)
	// The manager's ports are for one manager a machine; the flags have variables.
	env := environment(t, "DRYDOCK_API_BIND_ADDRESS=127.0.0.1:0", "KUBECONFIG=")
	t.Log(run(t, dir, env, p.script(demo)))

	t.Cleanup(func() {
		down := exec.Command(filepath.Join("bin", "devcluster"), "down")
		down.Dir = dir
		if output, err := down.CombinedOutput(); err != nil {
			t.Errorf("bin/devcluster down: %v\n%s", err, output)
		}
	})
	first := terminal(t, dir, env, p.script(try[:1]))
	first.await(t, "msg=leading")
	t.Log(run(t, dir, env, p.script(try[1:])))
	first.interrupt(t)
	t.Log(first.String())
}

// checkout copies the files of the repository, as they are now, into a new directory.
func checkout(t *testing.T) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "-C", root(t), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	output, err := list.Output()
	if err != nil {
		t.Fatalf("listing the files of the repository: %v", err)
	}
	dir := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimRight(string(output), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root(t), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// session is a shell that runs on its own.
type session struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

// Write takes what is printed.
func (s *session) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.Write(p)
}

// String is what has been printed.
func (s *session) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// await waits until a text has been printed.
func (s *session) await(t *testing.T, text string) {
	t.Helper()
	limit := time.After(patience)
	for !strings.Contains(s.String(), text) {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-s.ended:
			t.Fatalf("the first terminal has ended without %q", text)
		case <-limit:
			t.Fatalf("the first terminal has not printed %q within %s", text, patience)
		}
	}
}

// terminal opens one, and closes it with the test.
func terminal(t *testing.T, dir string, env []string, script string) *session {
	t.Helper()
	s := &session{cmd: exec.Command("sh", "-euc", script), ended: make(chan struct{})}
	s.cmd.Dir, s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = dir, slices.Clone(env), s, s
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // a shell that is interrupted says so
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.ended
		if t.Failed() {
			t.Logf("the first terminal:\n%s", s)
		}
	})
	return s
}

// interrupt is Ctrl-C: everything in the terminal gets the signal.
func (s *session) interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.ended:
	case <-time.After(patience):
		t.Error("Ctrl-C did not end the manager")
	}
}
