package toolchain

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// source lays out a tree with hack/devcluster in it, and returns its root.
func source(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "hack", "devcluster", "kubernetes")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

const mod = "module github.com/drydock-dev/drydock/hack/devcluster/kubernetes\n"

func TestLocateLooksUpward(t *testing.T) {
	root := source(t)
	want := filepath.Join(root, "hack", "devcluster")
	for _, from := range []string{root, want, filepath.Join(want, "kubernetes")} {
		if got, err := Locate(from); err != nil || got != want {
			t.Errorf("from %s: %s, %v; want %s", from, got, err, want)
		}
	}
	if _, err := Locate(t.TempDir()); err == nil || !strings.Contains(err.Error(), "--source") {
		t.Errorf("elsewhere: %v, want a hint at --source", err)
	}
}

func TestAFailedBuildShowsWhatGoSays(t *testing.T) {
	tools := Toolchain{Source: filepath.Join(source(t), "hack", "devcluster")}
	_, err := tools.Program(context.Background(), Tool{Module: Kubernetes, Path: "no-such-program"})
	if err == nil || !strings.Contains(err.Error(), "no-such-program") || !strings.Contains(err.Error(), "no such tool") {
		t.Errorf("got %v, want go's own words", err)
	}
}

// What is found once is not looked for again while the versions are the same, and is if it
// has gone.
func TestWhatWasFoundIsRemembered(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	tools := Toolchain{Source: filepath.Join(source(t), "hack", "devcluster")}
	sum := filepath.Join(tools.Source, "kubernetes", "go.sum")
	if err := os.WriteFile(sum, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	folder, looked := t.TempDir(), 0
	find := func() string {
		t.Helper()
		path, err := tools.remembered(t.Context(), Kubernetes, "a tool", func() (string, error) {
			looked++
			path := filepath.Join(folder, strconv.Itoa(looked))
			return path, os.WriteFile(path, nil, 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Base(path)
	}
	if first, again := find(), find(); first != "1" || again != "1" {
		t.Errorf("found %s, then %s", first, again)
	}
	if err := os.Remove(filepath.Join(folder, "1")); err != nil {
		t.Fatal(err)
	}
	if got := find(); got != "2" {
		t.Errorf("found %s after it has gone", got)
	}
	if err := os.WriteFile(sum, []byte("another version"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := find(); got != "3" {
		t.Errorf("found %s of another version", got)
	}
}
