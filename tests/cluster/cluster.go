package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	longhorn "github.com/longhorn/longhorn-manager/k8s/pkg/client/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"kubevirt.io/client-go/kubevirt"
)

// patience is how long anything may take before a test gives up. It is generous:
// a test that waits for the wrong thing is slow once, one that gives up too early
// fails on every loaded machine.
const patience = 2 * time.Minute

// Cluster is one test's hold on the shared dev cluster.
type Cluster struct {
	// StateDir is the dev cluster's folder: logs, audit log, kubeconfig.
	StateDir string
	// Admin may do everything. The clients below use it.
	Admin    *rest.Config
	Kube     kubernetes.Interface
	KubeVirt kubevirt.Interface
	Longhorn longhorn.Interface
	Dynamic  dynamic.Interface

	mu         sync.Mutex
	namespaces []string
	hosts      []string
	dumped     bool
}

// For returns the dev cluster, booting it if this is the first call. A cluster
// that does not come up fails the test. Everything made through the returned
// value is removed when t ends.
func For(t testing.TB) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a dev cluster, which takes a quarter of a minute to boot")
	}
	dir, err := shared.stateDir()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{StateDir: dir}
	if err := c.connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cleanUp(t) })
	return c
}

func (c *Cluster) connect() error {
	var err error
	if c.Admin, err = clientcmd.BuildConfigFromFlags("", filepath.Join(c.StateDir, "kubeconfig")); err != nil {
		return fmt.Errorf("reading the dev cluster's kubeconfig: %w", err)
	}
	// A test waits for what the cluster does, not for its own client.
	c.Admin.QPS = -1
	c.Admin.WarningHandler = rest.NoWarnings{}
	if c.Kube, err = kubernetes.NewForConfig(c.Admin); err != nil {
		return fmt.Errorf("building a Kubernetes client: %w", err)
	}
	if c.KubeVirt, err = kubevirt.NewForConfig(c.Admin); err != nil {
		return fmt.Errorf("building a KubeVirt client: %w", err)
	}
	if c.Longhorn, err = longhorn.NewForConfig(c.Admin); err != nil {
		return fmt.Errorf("building a Longhorn client: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(c.Admin); err != nil {
		return fmt.Errorf("building a dynamic client: %w", err)
	}
	return nil
}

// Namespace makes a namespace for this test and returns its name. It can be used
// at once: its default service account exists, without which no pod starts.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	ctx := t.Context()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	made, err := c.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	c.mu.Lock()
	c.namespaces = append(c.namespaces, made.Name)
	c.mu.Unlock()
	await(t, c, "the namespace's service account", "default",
		watchOf[*corev1.ServiceAccountList](c.Kube.CoreV1().ServiceAccounts(made.Name)), func(*corev1.ServiceAccount) bool { return true })
	return made.Name
}

// Kubeconfig issues a client certificate for a user, and returns the path of a
// kubeconfig with it that is removed with the test. Without groups the user is an
// administrator. Its requests are in the audit log in any case, see Audit; give
// it a name that no other test uses to count them.
func (c *Cluster) Kubeconfig(t testing.TB, user string, groups ...string) string {
	t.Helper()
	if manifest, yes := substitute(user); yes {
		if err := c.applyAccount(t.Context(), manifest); err != nil {
			t.Fatal(err)
		}
		return c.AccountKubeconfig(t, AccountNamespace, AccountName)
	}
	if len(groups) == 0 {
		groups = []string{"system:masters"}
	}
	file := filepath.Join(t.TempDir(), user+".kubeconfig")
	if err := shared.issue(c.StateDir, user, append(slices.Clone(groups), auditedGroup), file); err != nil {
		t.Fatal(err)
	}
	return file
}

// unique returns a name that no other test has.
func unique(prefix string) string { return prefix + rand.String(5) }

// cleanUpTime bounds the removal of one test's objects.
const cleanUpTime = 30 * time.Second

// cleanUp removes VMs before hosts: a VM whose host is gone can neither stop nor
// be finalized. What cannot be removed in time is reported, but no reason to fail
// a test that has passed.
func (c *Cluster) cleanUp(t testing.TB) {
	if t.Failed() {
		c.Dump(t)
	}
	// The test's own context has ended.
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
	defer cancel()
	for _, namespace := range c.namespaces {
		if err := c.emptyNamespace(ctx, namespace); err != nil {
			t.Logf("removing the VMs of %s: %v", namespace, err)
		}
	}
	for _, name := range c.hosts {
		if err := c.Kube.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Logf("removing the host %s: %v", name, err)
		}
	}
}

// emptyNamespace deletes the namespace, cuts short what is still running in it,
// and waits until its VMs are gone.
func (c *Cluster) emptyNamespace(ctx context.Context, namespace string) error {
	now := int64(0)
	force := metav1.DeleteOptions{GracePeriodSeconds: &now}
	virt := c.KubeVirt.KubevirtV1()
	if err := virt.VirtualMachines(namespace).DeleteCollection(ctx, force, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("deleting VMs: %w", err)
	}
	if err := c.Kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the namespace: %w", err)
	}
	for {
		instances, err := virt.VirtualMachineInstances(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing VMIs: %w", err)
		}
		if len(instances.Items) == 0 {
			return nil
		}
		if err := c.Kube.CoreV1().Pods(namespace).DeleteCollection(ctx, force, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("deleting pods: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d VMIs remain: %w", len(instances.Items), ctx.Err())
		case <-time.After(300 * time.Millisecond):
		}
	}
}
