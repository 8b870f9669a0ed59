package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
)

// The names that pages use.
const (
	host      = "w1"
	namespace = metav1.NamespaceDefault
)

// The page that is the newcomer's, and its section with a cluster that stays.
const (
	readme = "README.md"
	tryIt  = "Try it yourself"
)

// patience is how long a page may take, what it builds included.
const patience = 15 * time.Minute

// Every page is followed from its top to its end in one shell, beside a manager, in a new
// directory. A command that fails fails the page.
func TestEveryPageCanBeFollowed(t *testing.T) {
	c := cluster.For(t)
	m := manager.Start(t, c.Kubeconfig(t, "drydock"), "--api", "--webhook")
	address, err := m.Address("api")
	if err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "the certificate is there", func(ctx context.Context) error {
		_, err := c.Kube.CoreV1().Secrets("harvester-system").Get(ctx, "drydock-tls", metav1.GetOptions{})
		return err
	})
	// Where there is a pod network the API is at this port of the machine; here, too, but
	// tests that run side by side cannot all have the same one.
	addressed := strings.NewReplacer("localhost:8443", strings.Replace(address, "127.0.0.1", "localhost", 1))
	followed := 0
	for _, name := range documents(t) {
		p := read(t, name)
		blocks := p.commands()
		switch name {
		case "CONTRIBUTING.md":
			continue // about changing the code; what it says of tests is in backquotes
		case readme:
			// Not what a newcomer builds and boots: that is TestANewcomersWalk's.
			blocks = append(p.commands("Drydock"), p.commands(tryIt)[1:]...)
		}
		if len(blocks) == 0 {
			continue
		}
		followed++
		t.Run(name, func(t *testing.T) {
			populate(t, c, name != readme) // whose reader makes his own VM
			t.Log(run(t, directory(t, c), environment(t, "KUBECONFIG="+filepath.Join(c.StateDir, "kubeconfig")), addressed.Replace(p.script(blocks))))
		})
	}
	if followed < 8 {
		t.Errorf("%d pages with commands were found: that is not all of them", followed)
	}
}

// Only the two marks are used, so that no block is left out by a misspelling.
func TestBlocksAreMarkedAsTheyAreRun(t *testing.T) {
	marked := 0
	for _, name := range documents(t) {
		for _, b := range read(t, name).blocks {
			switch {
			case b.info == beyond:
				marked++
			case b.info != shell && (strings.HasPrefix(b.info, shell) || strings.HasPrefix(b.text, "kubectl ")):
				t.Errorf("%s:%d: a block marked %q is not run: it is %q, or %q where it needs what no dev cluster has", name, b.line, b.info, shell, beyond)
			}
		}
	}
	if most := 6; marked > most {
		t.Errorf("%d blocks are marked %q, and run by nobody: keep them to %d", marked, beyond, most)
	}
}

// directory is one like a checkout in which a cluster runs.
func directory(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	dir := t.TempDir()
	for name, target := range map[string]string{".devcluster": c.StateDir, "hack": filepath.Join(root(t), "hack")} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// populate makes what pages are about: the VM vm1 on the host w1, and one for the labels
// that they use. VMs go, and the host leaves maintenance, with the test.
func populate(t *testing.T, c *cluster.Cluster, withVMs bool) {
	t.Helper()
	vms := c.KubeVirt.KubevirtV1().VirtualMachines(namespace)
	names := map[string]string{"vm1": "web", "vm2": "batch"}
	t.Cleanup(func() {
		// The test's own context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := restore(ctx, c); err != nil {
			t.Error(err)
		}
		// What docs/api.md makes, for a cluster that is used again.
		rbac := c.Kube.RbacV1()
		for _, err := range []error{
			c.Kube.CoreV1().ServiceAccounts(namespace).Delete(ctx, "operator", metav1.DeleteOptions{}),
			rbac.ClusterRoles().Delete(ctx, "node-operator", metav1.DeleteOptions{}),
			rbac.ClusterRoleBindings().Delete(ctx, "node-operator", metav1.DeleteOptions{}),
		} {
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
		for name := range names {
			if err := vms.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
		// A VM goes after its instance.
		for {
			left, err := vms.List(ctx, metav1.ListOptions{})
			if err == nil && len(left.Items) == 0 {
				return
			}
			select {
			case <-ctx.Done():
				t.Errorf("VMs remain: %v", err)
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	if !withVMs {
		return
	}
	var made []*cluster.VM
	for name, tier := range names {
		made = append(made, c.VM(namespace, name).On(host).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate).Label("tier", tier))
	}
	operator.Create(t, made...)
}

// restore takes the host out of maintenance, whatever a page has left, and waits.
func restore(ctx context.Context, c *cluster.Cluster) error {
	for {
		node, err := c.Kube.CoreV1().Nodes().Get(ctx, host, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("host %s: %w", host, err)
		}
		_, record := node.Annotations[maintenance.AnnotationNodeRecord]
		_, asks := node.Annotations[maintenance.AnnotationRequested]
		if maintenance.Condition(node) == nil && !record && !asks && !node.Spec.Unschedulable {
			return nil
		}
		body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null,%q:null}}}`, maintenance.AnnotationRequested, maintenance.AnnotationStatus)
		if maintenance.PhaseOf(node) == maintenance.PhaseError && !record {
			body = fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, maintenance.AnnotationClear)
		}
		if _, err := c.Kube.CoreV1().Nodes().Patch(ctx, host, "application/merge-patch+json", body, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("host %s: %w", host, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("host %s does not leave maintenance: %v", host, node.Annotations)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// run gives a script to a shell that ends at the first command that fails, and returns
// what it printed.
func run(t *testing.T, dir string, env []string, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-euc", script)
	cmd.Dir, cmd.Env = dir, env
	// What it has started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return string(output)
}

var kubectl = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "-C", filepath.Join("..", "..", "hack", "devcluster", "kubernetes"), "tool", "-n", "kubectl")
	// As make builds it, so that both share the Go cache.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building kubectl: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
})

// environment is a newcomer's: kubectl and drydock are on PATH.
func environment(t *testing.T, more ...string) []string {
	t.Helper()
	bin := t.TempDir()
	for name, program := range map[string]func() (string, error){"kubectl": kubectl, "drydock": manager.Program} {
		file, err := program()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(file, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return append(append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH")), more...)
}
