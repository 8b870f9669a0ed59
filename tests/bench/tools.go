package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/manager"
)

// tool is a way to empty nodes.
type tool struct {
	name, user string
	// prepare does what is no part of the measurement, and returns what is: it begins
	// when it is called and is over when it returns.
	prepare func(t *attempt, s *scene) (drain func())
}

var tools = []tool{
	{"floor", "floor", floor},
	{"kubectl drain", "kubectl", kubectlDrain},
	{"Drydock", "drydock", drydock},
}

// each calls f for every item at once and returns the first error.
func each[T any](items []T, f func(T) error) error {
	var wait sync.WaitGroup
	failed := make(chan error, len(items))
	for _, item := range items {
		wait.Go(func() {
			if err := f(item); err != nil {
				failed <- err
			}
		})
	}
	wait.Wait()
	close(failed)
	return <-failed
}

// floor is the least that anybody can send who leaves the rest to KubeVirt.
func floor(t *attempt, s *scene) func() {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	launchers := s.launchers(t)
	return func() {
		err := each(s.nodes, func(node string) error {
			patch := []byte(`{"spec":{"unschedulable":true}}`)
			_, err := client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
		if err != nil {
			t.Fatalf("cordoning: %v", err)
		}
		err = each(launchers, func(pod corev1.Pod) error {
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
			err := client.PolicyV1().Evictions(pod.Namespace).Evict(t.Context(), eviction)
			if apierrors.IsTooManyRequests(err) {
				return nil // so KubeVirt says that it migrates the VM
			}
			return err
		})
		if err != nil {
			t.Fatalf("evicting: %v", err)
		}
		s.awaitEmpty(t)
	}
}

func (s *scene) launchers(t *attempt) []corev1.Pod {
	list, err := s.Kube.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: virtv1.AppLabel + "=virt-launcher"})
	if err != nil {
		t.Fatalf("listing launcher pods: %v", err)
	}
	if len(list.Items) != s.vms {
		t.Fatalf("%d launcher pods for %d VMs", len(list.Items), s.vms)
	}
	return list.Items
}

func (s *scene) awaitEmpty(t *attempt) {
	s.observer.await(t, s.patience(), "no VM is left", func(_ string, n *stations) bool { return !n.empty.IsZero() })
}

// findKubectl builds the dev cluster's own kubectl, as devcluster builds its programs.
var findKubectl = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	cmd := exec.Command("go", "-C", filepath.Join(filepath.Dir(file), "../../hack/devcluster/kubernetes"), "tool", "-n", "kubectl")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building kubectl: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
})

// kubectlDrain runs one kubectl for each node, all at once.
func kubectlDrain(t *attempt, s *scene) func() {
	kubectl, err := findKubectl()
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	return func() {
		ctx, cancel := context.WithTimeout(t.Context(), s.patience())
		defer cancel()
		err := each(s.nodes, func(node string) error {
			cmd := exec.CommandContext(ctx, kubectl, "--kubeconfig", s.kubeconfig, "--cache-dir", filepath.Join(temp, node),
				"drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force")
			if output, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("kubectl drain %s: %w\n%s", node, err, output)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s.awaitEmpty(t)
	}
}

// drydock runs the real manager. It starts before and ends after the measurement, so
// that it costs the other tools nothing.
func drydock(t *attempt, s *scene) func() {
	m := manager.Start(t, s.kubeconfig)
	t.Cleanup(func() {
		s.leave(t, m)
		s.keep(t, "drydock.log", m.Log())
	})
	s.settle(t)
	return func() {
		err := each(s.nodes, func(node string) error {
			patch := []byte(`{"metadata":{"annotations":{"` + maintenance.AnnotationRequested + `":"true"}}}`)
			_, err := s.Kube.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
		if err != nil {
			t.Fatalf("requesting maintenance: %v", err)
		}
		s.observer.await(t, s.patience(), "the phase is Completed", func(_ string, n *stations) bool { return !n.completed.IsZero() })
	}
}

// build builds what is run, so that nothing is built while others are measured, and all
// of one run is of one state of the source.
func build() error {
	if err := manager.Build(); err != nil {
		return err
	}
	_, err := findKubectl()
	return err
}

// settle returns once the user has sent nothing for a while: a manager that has just
// started still fills caches, and events are sent in the background.
func (s *scene) settle(t *attempt) {
	const quiet = 2 * time.Second
	for {
		mark := s.Audit(t, s.user)
		select {
		case <-time.After(quiet):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
		if count(mark.Requests(t)).total == 0 {
			return
		}
	}
}

// leave takes the nodes out of maintenance and ends the manager, as its user would: a
// lease that is not given back would keep the next one waiting.
func (s *scene) leave(t *attempt, m *manager.Manager) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, node := range s.nodes {
		patch := []byte(`{"metadata":{"annotations":{"` + maintenance.AnnotationStatus + `":null,"` + maintenance.AnnotationRequested + `":null}}}`)
		if _, err := s.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Logf("leaving maintenance: %v", err)
			continue
		}
		for ctx.Err() == nil {
			found, err := s.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			if err == nil && !maintenance.Engaged(found) && maintenance.Condition(found) == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	if _, err := m.Terminate(); err != nil {
		t.Logf("ending the manager: %v", err)
	}
}
