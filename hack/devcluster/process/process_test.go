package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func shell(t *testing.T, script string) Spec {
	t.Helper()
	return Spec{
		Name: "component", Path: "/bin/sh", Args: []string{"-c", script},
		Log: filepath.Join(t.TempDir(), "component.log"), Grace: 100 * time.Millisecond,
	}
}

func start(t *testing.T, spec Spec) *Process {
	t.Helper()
	p, err := Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func TestAnEndedComponentIsExplained(t *testing.T) {
	p := start(t, shell(t, "for n in $(seq 20); do echo line $n; done; exit 3"))
	<-p.Done()
	message := p.Err().Error()
	for _, want := range []string{"component", "exit status 3", p.Spec.Log, "line 20", "line 9"} {
		if !strings.Contains(message, want) {
			t.Errorf("the message lacks %q:\n%s", want, message)
		}
	}
	if strings.Contains(message, "line 8\n") {
		t.Errorf("the message holds more than the last %d lines:\n%s", tailLines, message)
	}
}

func TestAwaitFailsAtOnceWhenTheComponentEnds(t *testing.T) {
	p := start(t, shell(t, "exit 1"))
	err := p.Await(t.Context(), func(context.Context) error { return errors.New("not yet") })
	var ended *EndedError
	if !errors.As(err, &ended) || ended.Component != "component" {
		t.Errorf("got %v, want the component's end", err)
	}
}

func TestAwaitReportsTheLastAnswerWhenTimeIsUp(t *testing.T) {
	p := start(t, shell(t, "sleep 60"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := p.Await(ctx, func(context.Context) error { return errors.New("still booting") })
	if err == nil || !strings.Contains(err.Error(), "still booting") || !strings.Contains(err.Error(), p.Spec.Log) {
		t.Errorf("got %v, want the probe's answer and the log", err)
	}
}

func TestStopKillsWhatIgnoresSIGTERM(t *testing.T) {
	p := start(t, shell(t, "trap '' TERM; echo ready; while :; do sleep 0.05; done"))
	err := p.Await(t.Context(), func(context.Context) error {
		if !strings.Contains(Tail(p.Spec.Log, 1), "ready") {
			return errors.New("no trap yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Stop()
	if _, alive := ResidentMiB(p.PID); alive {
		t.Error("the component is still there")
	}
}

// envParent makes the test binary play a devcluster that is killed.
const envParent = "DRYDOCK_TEST_PARENT_LOG"

func TestMain(m *testing.M) {
	if log := os.Getenv(envParent); log != "" {
		p, err := Start(Spec{Name: "child", Path: "/bin/sleep", Args: []string{"60"}, Log: log})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.PID)
		select {}
	}
	os.Exit(m.Run())
}

func TestAComponentDiesWithAKilledParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), envParent+"="+filepath.Join(t.TempDir(), "log"))
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(output, &pid); err != nil {
		t.Fatal(err)
	}
	if _, alive := ResidentMiB(pid); !alive {
		t.Fatal("the child does not run")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, alive := ResidentMiB(pid); !alive {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the child (pid %d) outlives its parent", pid)
		}
	}
}
