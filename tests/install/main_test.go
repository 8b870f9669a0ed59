// Package install tries the chart: what it renders, how it is installed, upgraded, rolled
// back and removed, and that the rights it gives are the ones that are used. helm is
// the real one; the pods of the simulated hosts run no programs, so the
// manager runs beside them, with the arguments of the chart's Deployment and a token of
// its ServiceAccount.
package install

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

func TestMain(m *testing.M) {
	code := cluster.Main(m)
	manager.Remove()
	os.Exit(code)
}

const (
	release   = "drydock"
	namespace = cluster.AccountNamespace
	chart     = "charts/drydock"
)

// root is the top of the repository.
func root() string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
}

var helmProgram = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "-C", filepath.Join(root(), "hack", "helm"), "tool", "-n", "helm")
	// As make builds it, so that both share the Go cache.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building helm: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
})

// helm runs it, and returns what it prints and, as an error, what it complains about. c is
// nil for what needs no cluster.
func helm(t *testing.T, c *cluster.Cluster, args ...string) (string, error) {
	t.Helper()
	program, err := helmProgram()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = root()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG=/dev/null")
	if c != nil {
		cmd.Env = append(cmd.Env, "KUBECONFIG="+filepath.Join(c.StateDir, "kubeconfig"))
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// render returns the objects that the chart makes of the flags.
func render(t *testing.T, flags ...string) []*unstructured.Unstructured {
	t.Helper()
	output, err := helm(t, nil, append([]string{"template", release, chart, "--namespace", namespace}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := cluster.Decode(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// install installs the chart, and uninstalls it with the test, together with what the
// manager makes itself.
func install(t *testing.T, c *cluster.Cluster, flags ...string) string {
	t.Helper()
	output, err := helm(t, c, append([]string{"install", release, chart, "--namespace", namespace, "--wait", "--timeout", "3m"}, flags...)...)
	t.Cleanup(func() { uninstall(t, c) })
	if err != nil {
		c.Dump(t)
		t.Fatal(err)
	}
	return output
}

func uninstall(t *testing.T, c *cluster.Cluster) {
	program, err := helmProgram()
	if err != nil {
		t.Fatal(err)
	}
	// The test's own context has ended.
	cmd := exec.CommandContext(context.Background(), program, "uninstall", release, "--namespace", namespace, "--ignore-not-found", "--wait", "--timeout", "1m")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.StateDir, "kubeconfig"))
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("helm uninstall: %v\n%s", err, output)
	}
	forget(t, c)
}
