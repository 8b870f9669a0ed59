package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
)

// blocks are the commands of a document, in its order.
func blocks(t *testing.T, document string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root(), document))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for i, part := range strings.Split(string(content), "```") {
		if text, isShell := strings.CutPrefix(part, "sh\n"); i%2 == 1 && isShell {
			found = append(found, text)
		}
	}
	return found
}

// Every command of the samples does what it says, one after the other.
func TestTheSamplesWork(t *testing.T) {
	c := cluster.For(t)
	manager.Start(t, c.Kubeconfig(t, "samples"))
	kubectl, err := kubectlProgram()
	if err != nil {
		t.Fatal(err)
	}
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t, operator.Movable(c, ns, "web", pool).Label("tier", "web"), operator.Movable(c, ns, "other", pool))
	for _, block := range blocks(t, "deploy/samples/README.md") {
		if strings.HasPrefix(block, "export NODE=") {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", block)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.StateDir, "kubeconfig"), "NODE="+host, "NAMESPACE="+ns,
			"PATH="+filepath.Dir(kubectl)+string(os.PathListSeparator)+os.Getenv("PATH"))
		output, err := cmd.CombinedOutput()
		if err != nil || len(output) == 0 && !strings.Contains(block, "until test") {
			t.Fatalf("%s: %v\n%s", block, err, output)
		}
		t.Logf("%s%s", block, output)
	}
	operator.AwaitOut(t, c, host)
	operator.AwaitForgotten(t, c, ns, "web")
}
