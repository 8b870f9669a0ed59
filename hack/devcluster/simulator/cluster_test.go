package simulator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"kubevirt.io/client-go/kubevirt"
)

// AttachTo names the environment variable with the state directory of a cluster
// that runs already; without it the tests boot one of their own.
const attachTo = "DRYDOCK_DEVCLUSTER"

// builtProgram names the environment variable with a devcluster that is built already.
const builtProgram = "DRYDOCK_DEVCLUSTER_PROGRAM"

// Patience is far more than anything here takes: a test on a busy machine is to
// be slow, not red.
const patience = 90 * time.Second

// A devcluster is what the tests of this package share.
type devcluster struct {
	config  *rest.Config
	kube    kubernetes.Interface
	virt    kubevirt.Interface
	dynamic dynamic.Interface
}

var shared struct {
	once    sync.Once
	cluster *devcluster
	down    func()
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.down != nil {
		shared.down()
	}
	os.Exit(code)
}

// cluster boots on the first call, so that tests without a cluster stay quick.
func cluster(t *testing.T) *devcluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	shared.once.Do(func() { shared.cluster, shared.down, shared.err = attachOrBoot() })
	if shared.err != nil {
		t.Fatalf("no cluster: %v", shared.err)
	}
	return shared.cluster
}

func attachOrBoot() (*devcluster, func(), error) {
	dir, down := os.Getenv(attachTo), func() {}
	if dir == "" {
		var err error
		if dir, down, err = boot(); err != nil {
			return nil, down, err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		return nil, down, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS = -1
	c := &devcluster{config: config}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, down, fmt.Errorf("build the Kubernetes client: %w", err)
	}
	if c.virt, err = kubevirt.NewForConfig(config); err != nil {
		return nil, down, fmt.Errorf("build the KubeVirt client: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, down, fmt.Errorf("build the dynamic client: %w", err)
	}
	return c, down, nil
}

// boot runs the real command: a cluster whose simulator lives in the test's own
// process would not show what the command wires wrongly.
func boot() (state string, down func(), err error) {
	down = func() {}
	dir, err := os.MkdirTemp("", "simulator-test")
	if err != nil {
		return "", down, fmt.Errorf("create a state directory: %w", err)
	}
	program, state := filepath.Join(dir, "devcluster"), filepath.Join(dir, "state")
	run := func(name string, arguments ...string) error {
		command := exec.Command(name, arguments...)
		command.Dir = ".."
		command.Stdout, command.Stderr = os.Stderr, os.Stderr
		if err := command.Run(); err != nil {
			return fmt.Errorf("%s %v: %w", name, arguments, err)
		}
		return nil
	}
	if built := os.Getenv(builtProgram); built != "" {
		program = built
	} else if err := run("go", "build", "-o", program, "./cmd/devcluster"); err != nil {
		return "", down, errors.Join(err, os.RemoveAll(dir))
	}
	// A cluster that does not come up leaves its logs behind, which its error names.
	if err := run(program, "up", "--detach", "--state-dir", state, "--control-planes", "1"); err != nil {
		return "", down, err
	}
	down = func() {
		if err := errors.Join(run(program, "down", "--state-dir", state), os.RemoveAll(dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return state, down, nil
}

// A scene is one test's share of the cluster: a namespace, hosts of its own,
// and a label that keeps its VMs on them, so that scenes can run side by side.
type scene struct {
	*devcluster
	t         *testing.T
	namespace string
	hosts     []string
}

const sceneLabel = "simulator-test/scene"

// newScene creates a namespace and as many hosts as asked for, and waits until
// KubeVirt would schedule to them.
func newScene(t *testing.T, hostCount int) *scene {
	t.Helper()
	t.Parallel()
	s := &scene{devcluster: cluster(t), t: t}
	namespace, err := s.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "sim-"},
	}, metav1.CreateOptions{})
	s.must(err)
	s.namespace = namespace.Name
	t.Cleanup(s.clear)
	for i := range hostCount {
		s.addHost(fmt.Sprintf("%s.host-%d", s.namespace, i))
	}
	for _, name := range s.hosts {
		s.hostIsReady(name)
	}
	return s
}

func (s *scene) addHost(name string) {
	s.t.Helper()
	_, err := s.kube.CoreV1().Nodes().Create(s.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{sceneLabel: s.namespace},
		Annotations: map[string]string{"sim.drydock.dev/host": "true"},
	}}, metav1.CreateOptions{})
	s.must(err)
	s.hosts = append(s.hosts, name)
}

func (s *scene) hostIsReady(name string) {
	s.t.Helper()
	s.eventually("host "+name+" is usable", func(ctx context.Context) (string, bool) {
		node, err := s.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error(), false
		}
		return fmt.Sprintf("labels %v, taints %v", node.Labels, node.Spec.Taints),
			nodeReady(node) == corev1.ConditionTrue && node.Labels["kubevirt.io/schedulable"] == "true" && len(node.Spec.Taints) == 0
	})
}

func nodeReady(node *corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return ""
}

// clear takes the scene away, so that a cluster that is attached to stays
// small. What fails here is somebody's next boot.
func (s *scene) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if s.t.Failed() {
		s.dump(ctx)
	}
	_ = s.kube.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{})
	for _, name := range s.hosts {
		_ = s.kube.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	}
}

// dump writes down what a reader of a red test wants to know first.
func (s *scene) dump(ctx context.Context) {
	if pods, err := s.kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for _, pod := range pods.Items {
			s.t.Logf("pod %s on %s: %s %s, deleted %v", pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.Status.Reason, pod.DeletionTimestamp)
		}
	}
	if vmis, err := s.virt.KubevirtV1().VirtualMachineInstances(s.namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for _, vmi := range vmis.Items {
			s.t.Logf("VMI %s on %s: %s, evacuating %q, migration %+v", vmi.Name, vmi.Status.NodeName, vmi.Status.Phase, vmi.Status.EvacuationNodeName, vmi.Status.MigrationState)
		}
	}
	if events, err := s.kube.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for _, event := range events.Items {
			s.t.Logf("event %s/%s: %s %s", event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// eventually waits for a condition; what it saw last explains a failure.
func (s *scene) eventually(what string, check func(context.Context) (seen string, ok bool)) {
	s.t.Helper()
	var seen string
	err := wait.PollUntilContextTimeout(s.t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var ok bool
		seen, ok = check(ctx)
		return ok, nil
	})
	if err != nil {
		s.t.Fatalf("%s: not within %s; last seen: %s", what, patience, seen)
	}
}
