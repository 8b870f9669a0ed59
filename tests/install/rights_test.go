package install

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// exceptions are rights that the maintenances of this test do not use, each with the
// reason why it is granted nevertheless.
var exceptions = map[string]string{
	"patch events": "client-go patches an event that is told again within ten minutes, which nothing here does",
	"update virtualmachineinstances/evacuate/cancel.subresources.kubevirt.io": "the KubeVirt of the dev cluster asks for the right to evacuate alone, later ones for this",
}

// The chart grants what a maintenance needs, and nothing else: all kinds of VMs and
// strategies, with force and without, to the end and broken off, under the chart's own
// account, seen in the audit log.
func TestTheChartGrantsWhatIsUsed(t *testing.T) {
	c := cluster.For(t)
	mark := c.Audit(t, cluster.Account)
	harvester(t, c)
	install(t, c, "--set", "webhooks.excludedNamespaces={}")
	m := replica(t, c)
	if err := m.AwaitLeading(); err != nil {
		t.Fatal(err)
	}
	if len(mark.Requests(t)) == 0 {
		t.Fatalf("the audit log does not have the requests of %s", cluster.Account)
	}
	c.Eventually(t, "the webhooks trust the CA", func(ctx context.Context) error {
		all, err := bundles(ctx, c)
		if err == nil && slices.ContainsFunc(all, func(b []byte) bool { return len(b) == 0 }) {
			err = errors.New("there are webhooks without CA bundle")
		}
		return err
	})
	repaired(t, c)
	through(t, c, func(host string) { ask(t, c, m, host) })
	forced(t, c)
	brokenOff(t, c)

	requests := slices.DeleteFunc(mark.Requests(t), everybody)
	missing, refused := unused(granted(t, render(t)), requests)
	for _, request := range refused {
		t.Errorf("not allowed: %s", request)
	}
	excused := map[string]bool{}
	for _, r := range missing {
		if exceptions[r.String()] == "" {
			t.Errorf("granted and not used: %s", r)
		}
		excused[r.String()] = true
	}
	for r := range exceptions {
		if !excused[r] {
			t.Errorf("%s: is no exception, it was used or is not granted", r)
		}
	}
	t.Logf("%d requests, %d kinds of rights", len(requests), len(granted(t, render(t))))
}

// repaired damages the certificate, which the manager then replaces.
func repaired(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	damage := []byte(`{"data":{"tls.crt":"bm9uc2Vuc2U="}}`)
	damaged, err := c.Kube.CoreV1().Secrets(namespace).Patch(t.Context(), "drydock-tls", types.MergePatchType, damage, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "the certificate is another", func(ctx context.Context) error {
		secret, err := c.Kube.CoreV1().Secrets(namespace).Get(ctx, "drydock-tls", metav1.GetOptions{})
		if err == nil && bytes.Equal(secret.Data[corev1.TLSCertKey], damaged.Data[corev1.TLSCertKey]) {
			err = errors.New("it is still damaged")
		}
		return err
	})
}

// through takes a host with a VM of each kind and with other pods into maintenance and
// back, and calls inside when it is in maintenance.
func through(t *testing.T, c *cluster.Cluster, inside func(host string)) {
	t.Helper()
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	daemon(t, c, ns, host)
	manual := operator.Movable(c, ns, "manual", pool).Strategy("ShutdownAndRestartAfterDisable").RunStrategy(virtv1.RunStrategyManual)
	manual.Create(t)
	if err := c.KubeVirt.KubevirtV1().VirtualMachines(ns).Start(t.Context(), "manual", &virtv1.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	c.AwaitVMI(t, ns, "manual", "it runs", cluster.IsRunning)
	operator.Create(t,
		operator.Movable(c, ns, "evicted", pool),
		// Its eviction would shut it down, so Drydock makes the migration.
		c.VM(ns, "moved").On(host).PinnedTo(pool),
		operator.Movable(c, ns, "soon", pool).Strategy("ShutdownAndRestartAfterEnable"),
		operator.Movable(c, ns, "later", pool).Strategy("ShutdownAndRestartAfterDisable"),
		operator.Movable(c, ns, "off", pool).Strategy("Shutdown"))
	operator.Relabel(t, c, ns, "evicted", "Migrate")
	c.Eventually(t, "the launcher has the VM's label", func(ctx context.Context) error {
		pods, err := c.Kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: maintenance.LabelStrategy + "=Migrate"})
		if err == nil && len(pods.Items) == 0 {
			err = errors.New("it has not")
		}
		return err
	})
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	for _, name := range []string{"evicted", "moved", "soon"} {
		operator.AwaitRunningOn(t, c, ns, name, other)
	}
	inside(host)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	for _, name := range []string{"later", "manual"} {
		operator.AwaitRunningOn(t, c, ns, name, host, other)
		operator.AwaitForgotten(t, c, ns, name)
	}
}

// forced takes a host into maintenance on which a VMI runs that cannot move and that no VM
// owns.
func forced(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	vmi := &virtv1.VirtualMachineInstance{}
	operator.Movable(c, ns, "alone", pool).Annotate("sim.drydock.dev/not-live-migratable", "HostDeviceNotLiveMigratable: a PCI device").Change(func(vm *virtv1.VirtualMachine) {
		vmi.ObjectMeta = *vm.Spec.Template.ObjectMeta.DeepCopy()
		vmi.Spec = *vm.Spec.Template.Spec.DeepCopy()
	})
	vmi.Namespace, vmi.Name = ns, "alone"
	if _, err := c.KubeVirt.KubevirtV1().VirtualMachineInstances(ns).Create(t.Context(), vmi, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.AwaitVMI(t, ns, "alone", "it runs", cluster.IsRunning)
	operator.Annotate(t, c, pool.Host(0), map[string]string{maintenance.AnnotationForced: "true", maintenance.AnnotationRequested: "true"})
	operator.AwaitPhase(t, c, pool.Host(0), maintenance.PhaseCompleted)
	c.AwaitNoVMI(t, ns, "alone")
	operator.Leave(t, c, pool.Host(0))
	operator.AwaitOut(t, c, pool.Host(0))
}

// brokenOff leaves maintenance while one VM is being moved and another finds no place.
func brokenOff(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	operator.Annotate(t, c, other, map[string]string{"sim.drydock.dev/memory": "2Gi"})
	c.AwaitNode(t, other, "is small", func(n *corev1.Node) bool { return n.Status.Allocatable.Memory().Value() <= 2<<30 })
	operator.Create(t,
		operator.Movable(c, ns, "evicted", pool).Annotate("sim.drydock.dev/migration-seconds", "never"),
		// Drydock makes its migration, which stays pending.
		c.VM(ns, "big").On(host).PinnedTo(pool).Change(func(vm *virtv1.VirtualMachine) {
			vm.Spec.Template.Spec.Domain.Resources.Requests[corev1.ResourceMemory] = resource.MustParse("4Gi")
		}))
	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, ns+"/big has no target")
	c.AwaitVMI(t, ns, "evicted", "it is being moved", func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmi.Status.MigrationState != nil && vmi.Status.MigrationState.StartTimestamp != nil
	})
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
}

// daemon makes a DaemonSet and waits for its pod on the host: a drain asks for it.
func daemon(t *testing.T, c *cluster.Cluster, ns, host string) {
	t.Helper()
	labels := map[string]string{"app": "agent"}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{corev1.LabelHostname: host},
					Containers:   []corev1.Container{{Name: "agent", Image: "agent"}},
				},
			},
		},
	}
	if _, err := c.Kube.AppsV1().DaemonSets(ns).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "the DaemonSet's pod runs", func(ctx context.Context) error {
		made, err := c.Kube.AppsV1().DaemonSets(ns).Get(ctx, "agent", metav1.GetOptions{})
		if err == nil && made.Status.NumberReady != 1 {
			err = errors.New("it does not yet")
		}
		return err
	})
}
