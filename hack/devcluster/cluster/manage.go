package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drydock-dev/drydock/hack/devcluster/controlplane"
	"github.com/drydock-dev/drydock/hack/devcluster/hosts"
	"github.com/drydock-dev/drydock/hack/devcluster/pki"
	"github.com/drydock-dev/drydock/hack/devcluster/process"
	"github.com/drydock-dev/drydock/hack/devcluster/state"
)

// ErrNotRunning means that no devcluster holds the state directory.
var ErrNotRunning = errors.New("no dev cluster runs")

// downTimeout is more than the sum of all components' grace periods.
const downTimeout = 30 * time.Second

// Down ends the cluster and waits until it is gone. Stopping what is not there
// is no error.
func Down(ctx context.Context, dir state.Dir, out io.Writer) error {
	pid, running, err := dir.Running()
	if err != nil {
		return err
	}
	if !running {
		_, err := fmt.Fprintf(out, "no dev cluster runs in %s\n", dir)
		return err
	}
	if pid == 0 {
		return fmt.Errorf("the state directory %s is in use: %w, by a process that has not yet said its pid", dir, state.ErrRunning)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping the cluster (pid %d): %w", pid, err)
	}
	if err := awaitUnlocked(ctx, dir, downTimeout); err == nil || ctx.Err() != nil {
		return err
	}
	// Its components die with it.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing the cluster (pid %d): %w", pid, err)
	}
	return awaitUnlocked(ctx, dir, downTimeout)
}

func awaitUnlocked(ctx context.Context, dir state.Dir, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		_, running, err := dir.Running()
		if err != nil || !running {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the cluster to end: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Kubeconfig issues a client certificate for a user.
func Kubeconfig(dir state.Dir, user string, groups []string) ([]byte, error) {
	info, err := dir.ReadInfo()
	if err != nil {
		return nil, fmt.Errorf("%s holds no cluster: %w", dir, err)
	}
	authority, err := pki.LoadAuthority(dir.PKI(), controlplane.ClusterCA)
	if err != nil {
		return nil, err
	}
	config, err := authority.ClientConfig(info.Server, user, groups...)
	if err != nil {
		return nil, err
	}
	return pki.Kubeconfig(config, user)
}

// Status prints what runs. It fails if no cluster does, or not all of one.
func Status(ctx context.Context, dir state.Dir, out io.Writer) error {
	_, running, err := dir.Running()
	if err != nil {
		return err
	}
	if !running {
		return fmt.Errorf("%w in %s", ErrNotRunning, dir)
	}
	info, err := dir.ReadInfo()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	dead := printComponents(table, info)
	nodesErr := printNodes(ctx, table, info.Kubeconfig)
	if info.Ready {
		_, _ = fmt.Fprintf(table, "\nready after\t%s\n", info.ReadyAfter)
	} else {
		_, _ = fmt.Fprint(table, "\nnot ready yet\n")
	}
	_, _ = fmt.Fprintf(table, "kubeconfig\t%s\n", info.Kubeconfig)
	// The writer keeps the first error of all that was written.
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	if len(dead) > 0 {
		return fmt.Errorf("not alive: %v", dead)
	}
	return nodesErr
}

func printComponents(out io.Writer, info state.Info) (dead []string) {
	var total float64
	_, _ = fmt.Fprintln(out, "COMPONENT\tPID\tRSS MiB\tLOG")
	for _, component := range info.Components {
		mib, alive := process.ResidentMiB(component.PID)
		if !alive {
			dead = append(dead, component.Name)
			_, _ = fmt.Fprintf(out, "%s\t%d\tdead\t%s\n", component.Name, component.PID, component.Log)
			continue
		}
		total += mib
		_, _ = fmt.Fprintf(out, "%s\t%d\t%.0f\t%s\n", component.Name, component.PID, mib, component.Log)
	}
	_, _ = fmt.Fprintf(out, "sum\t\t%.0f\t\n", total)
	return dead
}

func printNodes(ctx context.Context, out io.Writer, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.Timeout = 5 * time.Second
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	_, _ = fmt.Fprintln(out, "\nNODE\tSTATE\t\t")
	for n := range nodes.Items {
		_, _ = fmt.Fprintf(out, "%s\t%s\t\t\n", nodes.Items[n].Name, describe(&nodes.Items[n]))
	}
	return nil
}

func describe(node *corev1.Node) string {
	text := "NotReady"
	if hosts.Ready(node) {
		text = "Ready"
	}
	if node.Spec.Unschedulable {
		text += ", cordoned"
	}
	return text
}
