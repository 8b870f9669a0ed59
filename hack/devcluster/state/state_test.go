package state

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyOneHoldsADirectory(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "state"))
	lock, err := dir.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Acquire(); !errors.Is(err, ErrRunning) {
		t.Errorf("a second hold: %v, want %v", err, ErrRunning)
	}
	if pid, running, err := dir.Running(); err != nil || !running || pid != os.Getpid() {
		t.Errorf("running %t under pid %d (%v), want this process", running, pid, err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if _, running, err := dir.Running(); err != nil || running {
		t.Errorf("after its release: running %t (%v)", running, err)
	}
	again, err := dir.Acquire()
	if err != nil {
		t.Fatalf("taking a released directory: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestAForeignFolderIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "pki")
	if err := os.Mkdir(precious, 0o700); err != nil {
		t.Fatal(err)
	}
	// Twice: a refusal must leave no mark that makes the folder look like ours.
	for range 2 {
		if err := Dir(dir).Prepare(); err == nil {
			t.Error("somebody's folder was prepared as a state directory")
		}
		if _, err := Dir(dir).Acquire(); err == nil {
			t.Error("somebody's folder was taken as a state directory")
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("its content is gone: %v", err)
	}
}

func TestResetClearsAnEarlierCluster(t *testing.T) {
	dir := Dir(t.TempDir())
	lock, err := dir.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release() //nolint:errcheck // a test
	if err := dir.Reset(); err != nil {
		t.Fatal(err)
	}
	old, foreign := filepath.Join(dir.Etcd(), "member"), filepath.Join(string(dir), "notes")
	for _, file := range []string{old, foreign} {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := dir.Reset(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the old data are still there (%v)", err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a file that is not devcluster's is gone: %v", err)
	}
}

func TestInfoIsReadAsWritten(t *testing.T) {
	dir := Dir(t.TempDir())
	want := Info{PID: 7, Server: "https://127.0.0.1:1", Ready: true, Components: []Component{{Name: "etcd", PID: 8, Log: "l"}}}
	if err := dir.WriteInfo(want); err != nil {
		t.Fatal(err)
	}
	got, err := dir.ReadInfo()
	if err != nil {
		t.Fatal(err)
	}
	if got.PID != want.PID || got.Server != want.Server || !got.Ready || len(got.Components) != 1 || got.Components[0] != want.Components[0] {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
