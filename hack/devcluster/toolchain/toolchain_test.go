package toolchain

import (
	"context"
	"os"
	"path/filepath"
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
	_, err := tools.Program(context.Background(), Tool{Kubernetes, "no-such-program"})
	if err == nil || !strings.Contains(err.Error(), "no-such-program") || !strings.Contains(err.Error(), "no such tool") {
		t.Errorf("got %v, want go's own words", err)
	}
}
