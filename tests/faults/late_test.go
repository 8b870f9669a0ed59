package faults

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
)

// The watch of VMIs is behind: what runs on the node is waited for until it is known, and
// until then neither judged nor touched. By KubeVirt's default an eviction of these
// launchers would power the VMs off.
func TestVMIsThatAreKnownLateAreWaitedFor(t *testing.T) {
	c := cluster.For(t)
	p := newProxy(t, c)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	m := manager.Start(t, p.kubeconfig, "--leader-elect=false")
	t.Cleanup(m.Kill)

	deliver := p.delay()
	t.Cleanup(deliver)
	operator.Create(t,
		c.VM(ns, "stuck").On(host).PinnedTo(pool).Annotate("sim.drydock.dev/not-live-migratable", "HostDeviceNotLiveMigratable: VMI uses a PCI host device"),
		c.VM(ns, "moves").On(host).PinnedTo(pool).Annotate("sim.drydock.dev/migration-seconds", "never"))
	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "the pre-checks wait until VMI "+ns+"/", "whose launcher is on the node, is known")
	// Taken back, since what is known of a VMI while the news come in may be of its first
	// moments.
	operator.Annotate(t, c, host, map[string]string{maintenance.AnnotationRequested: ""})
	operator.AwaitOut(t, c, host)
	deliver()
	operator.AwaitSeen(t, c, ns, "stuck")
	operator.AwaitSeen(t, c, ns, "moves")
	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "refused", ns+"/stuck cannot be live-migrated")

	operator.Relabel(t, c, ns, "stuck", "ShutdownAndRestartAfterDisable")
	operator.RequestUntilAdmitted(t, c, host)
	operator.AwaitMessage(t, c, host, "1 migrating ("+ns+"/moves)")
	deliver = p.delay()
	t.Cleanup(deliver)
	late := c.VM(ns, "late").On(host).PinnedTo(pool).Change(func(vm *virtv1.VirtualMachine) {
		vm.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
	}).Create(t)
	before := operator.AwaitRunningOn(t, c, ns, "late", host)
	operator.AwaitMessage(t, c, host, "waiting until VMI "+ns+"/late, whose launcher is on the node, is known")
	deliver()
	operator.AnnotateVMI(t, c, ns, "moves", map[string]string{"sim.drydock.dev/migration-seconds": "0.1"})
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	if after := operator.AwaitRunningOn(t, c, ns, late.Name, other); after.UID != before.UID {
		t.Error("a VM that was known late was powered off")
	}
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	operator.AwaitRunningOn(t, c, ns, "stuck", pool.Hosts...)
	list, err := c.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(ns).List(t.Context(), metav1.ListOptions{LabelSelector: maintenance.LabelOwnMigration})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("%d migrations of Drydock's own (%v), want one of each VM that moves", len(list.Items), err)
	}
}

// What its owner does to a VM shows in its VMI alone, which the manager does not know yet:
// the stop is not written over it, and the VM is not started on leaving.
func TestAVMThatItsOwnerStoppedUnseenStaysOff(t *testing.T) {
	c := cluster.For(t)
	p := newProxy(t, c)
	ns, host := c.Namespace(t), c.Pool(t, 2).Host(0)
	m := manager.Start(t, p.kubeconfig, "--leader-elect=false")
	t.Cleanup(m.Kill)
	c.VM(ns, "a").On(host).RunStrategy(virtv1.RunStrategyRerunOnFailure).Strategy("ShutdownAndRestartAfterDisable").Create(t)
	operator.AwaitSeen(t, c, ns, "a")

	deliver := p.delay()
	t.Cleanup(deliver)
	history := c.RecordVM(t, ns, "a")
	if err := c.KubeVirt.KubevirtV1().VirtualMachines(ns).Stop(t.Context(), "a", &virtv1.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	c.AwaitNoVMI(t, ns, "a")
	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "1 of 1 VMs left")
	deliver()
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	for _, vm := range history.To(t, operator.GetVM(t, c, ns, "a")) {
		if operator.HasMarker(vm) || *vm.Spec.RunStrategy != virtv1.RunStrategyRerunOnFailure {
			t.Fatalf("its owner had stopped it, and it has marker %q and run strategy %s", operator.Marker(vm), *vm.Spec.RunStrategy)
		}
	}
	c.AwaitNoVMI(t, ns, "a")
}
