package faults

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// story is one small maintenance, with a VM of each kind and a plain pod.
type story struct {
	c         *cluster.Cluster
	ns        string
	pool      *cluster.Pool
	histories map[string]*cluster.History[*virtv1.VirtualMachine]
}

func newStory(t *testing.T, c *cluster.Cluster) *story {
	t.Helper()
	s := &story{c: c, ns: c.Namespace(t), pool: c.Pool(t, 2), histories: map[string]*cluster.History[*virtv1.VirtualMachine]{}}
	for name, vm := range map[string]struct {
		strategy string
		run      virtv1.VirtualMachineRunStrategy
	}{
		"moves": {"Migrate", virtv1.RunStrategyAlways},
		"soon":  {"ShutdownAndRestartAfterEnable", virtv1.RunStrategyRerunOnFailure},
		"later": {"ShutdownAndRestartAfterDisable", virtv1.RunStrategyManual},
		"off":   {"Shutdown", virtv1.RunStrategyAlways},
	} {
		s.submit(t, name, vm.strategy, vm.run)
		s.histories[name] = c.RecordVM(t, s.ns, name)
	}
	labels := map[string]string{"app": "web"}
	one := int32(1)
	_, err := c.Kube.AppsV1().Deployments(s.ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"kubernetes.io/hostname": s.pool.Host(0)},
				Containers:   []corev1.Container{{Name: "web", Image: "web"}},
			},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// submit makes a VM that runs on the first host. A Manual VM has to be started.
func (s *story) submit(t *testing.T, name, strategy string, run virtv1.VirtualMachineRunStrategy) {
	t.Helper()
	vm := s.c.VM(s.ns, name).On(s.pool.Host(0)).PinnedTo(s.pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate).Strategy(strategy).RunStrategy(run)
	if run == virtv1.RunStrategyManual {
		vm.Submit(t)
		if err := s.c.KubeVirt.KubevirtV1().VirtualMachines(s.ns).Start(t.Context(), name, &virtv1.StartOptions{}); err != nil {
			t.Fatal(err)
		}
		vm.AwaitRunning(t)
		return
	}
	vm.Create(t)
}

func (s *story) request(t *testing.T) {
	t.Helper()
	operator.Request(t, s.c, s.pool.Host(0))
}

func (s *story) leave(t *testing.T) {
	t.Helper()
	operator.Leave(t, s.c, s.pool.Host(0))
}

// awaitCompleted checks what is true of every node that has gone into maintenance.
func (s *story) awaitCompleted(t *testing.T) {
	t.Helper()
	s.c.AwaitNode(t, s.pool.Host(0), "Completed, cordoned", func(n *corev1.Node) bool {
		return maintenance.PhaseOf(n) == maintenance.PhaseCompleted && n.Spec.Unschedulable
	})
	for _, name := range []string{"moves", "soon"} {
		s.c.AwaitVMI(t, s.ns, name, "running on the other host", func(vmi *virtv1.VirtualMachineInstance) bool {
			return vmi.Status.NodeName == s.pool.Host(1) && cluster.IsRunning(vmi)
		})
	}
	for _, name := range []string{"later", "off"} {
		s.c.AwaitNoVMI(t, s.ns, name)
	}
}

// awaitOut checks what is true of every node that has left.
func (s *story) awaitOut(t *testing.T) {
	t.Helper()
	if node := operator.AwaitOut(t, s.c, s.pool.Host(0)); node.Spec.Unschedulable {
		t.Error("the node has left and is cordoned")
	}
	for _, name := range []string{"moves", "soon", "later"} {
		s.c.AwaitVMI(t, s.ns, name, "running", cluster.IsRunning)
	}
	for name := range s.histories {
		operator.AwaitForgotten(t, s.c, s.ns, name)
	}
	s.c.AwaitNoVMI(t, s.ns, "off")
}

// checkOnce fails when a VM was stopped or started more often than it should have been.
func (s *story) checkOnce(t *testing.T) {
	t.Helper()
	for name, want := range map[string]struct{ stops, starts int }{"moves": {0, 0}, "soon": {1, 1}, "later": {1, 1}, "off": {1, 0}} {
		var stops, starts int
		var before virtv1.VirtualMachineRunStrategy
		var last *virtv1.VirtualMachine
		for _, version := range s.histories[name].To(t, operator.GetVM(t, s.c, s.ns, name)) {
			now, err := version.RunStrategy()
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case before == "" || before == now:
			case now == virtv1.RunStrategyHalted:
				stops++
			default:
				starts++
			}
			before, last = now, version
		}
		if stops != want.stops || starts != want.starts {
			t.Errorf("VM %s was stopped %d times and started %d times, want %d and %d", name, stops, starts, want.stops, want.starts)
		}
		if strategy, _ := last.RunStrategy(); name == "later" && strategy != virtv1.RunStrategyManual || name == "soon" && strategy != virtv1.RunStrategyRerunOnFailure {
			t.Errorf("VM %s ends with run strategy %s", name, strategy)
		}
	}
}
