package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// closed keeps new VMIs out of a namespace until it is opened.
func closed(t *testing.T, c *cluster.Cluster, namespace string) (open func()) {
	t.Helper()
	_, err := c.Kube.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "closed"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			"count/virtualmachineinstances.kubevirt.io": resource.MustParse("0"),
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "the quota counts", func() bool {
		quota, err := c.Kube.CoreV1().ResourceQuotas(namespace).Get(t.Context(), "closed", metav1.GetOptions{})
		return err == nil && len(quota.Status.Hard) == 1
	})
	return func() {
		t.Helper()
		if err := c.Kube.CoreV1().ResourceQuotas(namespace).Delete(t.Context(), "closed", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// One VM that cannot start holds back nobody: neither the others, nor Completed, nor
// leaving. It is named, and comes back by itself when it can.
func TestAVMThatCannotStartHoldsBackNobody(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	pool := c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	var spaces []string
	for range 3 {
		ns := c.Namespace(t)
		spaces = append(spaces, ns)
		operator.Create(t,
			c.VM(ns, "soon").On(host).PinnedTo(pool).Strategy("ShutdownAndRestartAfterEnable"),
			c.VM(ns, "later").On(host).PinnedTo(pool).Strategy("ShutdownAndRestartAfterDisable").RunStrategy(virtv1.RunStrategyRerunOnFailure))
	}
	open := closed(t, c, spaces[1])

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	for _, ns := range []string{spaces[0], spaces[2]} {
		operator.AwaitRunningOn(t, c, ns, "soon", other)
	}
	operator.AwaitMessage(t, c, host, "not started yet: "+spaces[1]+"/soon")

	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	for _, ns := range []string{spaces[0], spaces[2]} {
		operator.AwaitRunningOn(t, c, ns, "later", host, other)
	}
	// Nobody would hear of these two from the node any more.
	for _, name := range []string{"soon", "later"} {
		operator.AwaitEvent(t, c, "VirtualMachine", spaces[1], name, "MaintenanceStartWaiting", "not started yet")
	}
	open()
	for _, name := range []string{"soon", "later"} {
		operator.AwaitRunningOn(t, c, spaces[1], name, host, other)
		operator.AwaitForgotten(t, c, spaces[1], name)
	}
}

// A VM that is to be started as soon as the node is empty, but that only this node can
// host, or whose last copy is here, waits for the node. It is listed.
func TestAVMThatOnlyThisNodeCanHostIsStartedOnLeaving(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	with := func(name string) *cluster.VM {
		return c.VM(ns, name).On(host).PinnedTo(pool).Strategy("ShutdownAndRestartAfterEnable")
	}
	sole, spread := volume(t, c, ns, "sole", host), volume(t, c, ns, "spread", host, other)
	operator.Create(t,
		with("bound").Change(func(vm *virtv1.VirtualMachine) {
			vm.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: host}
		}),
		with("sole").Claim("sole"), with("spread").Claim("spread"), with("free"))
	awaitHealthy(t, c, sole, 1)
	awaitHealthy(t, c, spread, 2)

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	for _, name := range []string{"spread", "free"} {
		operator.AwaitRunningOn(t, c, ns, name, other)
	}
	operator.AwaitMessage(t, c, host, ns+"/bound", ns+"/sole", "started on leaving", fmt.Sprintf("the only healthy copy of %s: reboot yes, remove no", sole))
	for _, name := range []string{"bound", "sole"} {
		if vm := operator.GetVM(t, c, ns, name); !halted(vm) || operator.Marker(vm) != host {
			t.Errorf("%s should wait for the node: it is %s with marker %q", name, runStrategy(vm), operator.Marker(vm))
		}
	}

	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	for _, name := range []string{"bound", "sole"} {
		operator.AwaitRunningOn(t, c, ns, name, host, other)
		operator.AwaitForgotten(t, c, ns, name)
	}
}
