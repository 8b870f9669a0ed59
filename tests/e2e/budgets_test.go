package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

func atLeast(n int32) func(*policyv1.PodDisruptionBudgetSpec) {
	return func(spec *policyv1.PodDisruptionBudgetSpec) {
		least := intstr.FromInt32(n)
		spec.MinAvailable, spec.MaxUnavailable = &least, nil
	}
}

// guardedPods makes one pod of each kind of budget that can never allow an eviction,
// and one that is free.
func guardedPods(t *testing.T, c *cluster.Cluster, namespace, host string) map[string]*corev1.Pod {
	t.Helper()
	crashing := plainPod(namespace, "crashing", host)
	crashing.Annotations = map[string]string{"sim.drydock.dev/ready": "false"}
	pods := createPods(t, c, plainPod(namespace, "never", host), plainPod(namespace, "uncountable", host), plainPod(namespace, "twice", host), crashing, plainPod(namespace, "free", host))
	pick := func(name string) map[string]string { return map[string]string{"pod": name} }
	budget(t, c, namespace, "never-pdb", pick("never"), atLeast(1))
	// How many pods there should be is unknown for pods without a controller.
	budget(t, c, namespace, "uncountable-pdb", pick("uncountable"), func(spec *policyv1.PodDisruptionBudgetSpec) {
		one := intstr.FromInt32(1)
		spec.MaxUnavailable = &one
	})
	budget(t, c, namespace, "twice-pdb-a", pick("twice"), atLeast(0))
	budget(t, c, namespace, "twice-pdb-b", pick("twice"), atLeast(0))
	budget(t, c, namespace, "crashing-pdb", pick("crashing"), atLeast(1))
	return pods
}

// Each kind of budget is named, holds up no other pod, and is never got around by a
// plain deletion. What an administrator changes takes effect without a new request.
func TestEveryKindOfBudgetIsNamedAndObeyed(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	pods := guardedPods(t, c, ns, host)
	mark := c.Audit(t, "drydock")

	operator.Request(t, c, host)
	awaitPodGone(t, c, pods["free"])
	node := operator.AwaitMessage(t, c, host, "4 pods left",
		ns+"/never held by PDB "+ns+"/never-pdb: it never allows an eviction", ns+"/uncountable held by PDB "+ns+"/uncountable-pdb: it cannot count its pods",
		ns+"/twice is selected by 2 PDBs", ns+"/twice-pdb-a", ns+"/twice-pdb-b",
		ns+"/crashing held by PDB "+ns+"/crashing-pdb: the pod is not Ready and counts against it")
	if phase := maintenance.PhaseOf(node); phase != maintenance.PhaseDraining {
		t.Errorf("pods are left to evict, and the node is %s", phase)
	}

	budgets := c.Kube.PolicyV1().PodDisruptionBudgets(ns)
	change := func(name, body string) {
		t.Helper()
		if _, err := budgets.Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	change("crashing-pdb", `{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}`)
	awaitPodGone(t, c, pods["crashing"])
	change("never-pdb", `{"spec":{"minAvailable":0}}`)
	awaitPodGone(t, c, pods["never"])
	for _, name := range []string{"twice-pdb-a", "uncountable-pdb"} {
		if err := budgets.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	for _, r := range mark.Requests(t) {
		if r.Resource == "pods" && r.Namespace == ns && r.Subresource == "" && strings.HasPrefix(r.Verb, "delete") {
			t.Errorf("a budget was got around: %s", r)
		}
	}
}

// The helper pod of a hot-plugged disk goes when its VM has moved, and by nobody else's
// hand: without it the guest would lose the disk.
func TestTheHelperOfAHotPluggedDiskIsNeverEvicted(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	gates := []byte(`{"spec":{"configuration":{"developerConfiguration":{"featureGates":["HotplugVolumes"]}}}}`)
	if _, err := c.KubeVirt.KubevirtV1().KubeVirts("kubevirt").Patch(t.Context(), "kubevirt", types.MergePatchType, gates, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	volume(t, c, ns, "extra", host, other)
	operator.Create(t, operator.Movable(c, ns, "vm", pool))
	first := getVMI(t, c, ns, "vm")
	eventually(t, c, "KubeVirt takes the disk", func() bool {
		return c.KubeVirt.KubevirtV1().VirtualMachines(ns).AddVolume(t.Context(), "vm", &virtv1.AddVolumeOptions{
			Name: "extra",
			Disk: &virtv1.Disk{Name: "extra", DiskDevice: virtv1.DiskDevice{Disk: &virtv1.DiskTarget{Bus: virtv1.DiskBusSCSI}}},
			VolumeSource: &virtv1.HotplugVolumeSource{PersistentVolumeClaim: &virtv1.PersistentVolumeClaimVolumeSource{
				PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "extra"},
			}},
		}) == nil
	})
	plugged := func(vmi *virtv1.VirtualMachineInstance) bool {
		for _, status := range vmi.Status.VolumeStatus {
			if status.Name == "extra" && status.Phase == virtv1.VolumeReady {
				return true
			}
		}
		return false
	}
	c.AwaitVMI(t, ns, "vm", "the guest has the disk", plugged)
	helper := awaitPodOf(t, c, ns, virtv1.AppLabel+"=hotplug-disk", host, func(*corev1.Pod) bool { return true })
	mark := c.Audit(t, "drydock")

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	if vmi := operator.AwaitRunningOn(t, c, ns, "vm", other); vmi.UID != first.UID || !plugged(vmi) {
		t.Errorf("the VM moved: %t, with its disk: %t", vmi.UID == first.UID, plugged(vmi))
	}
	awaitPodGone(t, c, helper)
	for _, r := range evictionsOf(mark.Requests(t), ns, helper.Name) {
		t.Errorf("the helper pod of a disk that the guest uses: %s", r)
	}
}
