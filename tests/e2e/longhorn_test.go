package e2e

import (
	"context"
	"testing"

	longhornv1 "github.com/longhorn/longhorn-manager/k8s/pkg/apis/longhorn/v1beta2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// replica returns the name of a volume's replica on a host.
func replica(t *testing.T, c *cluster.Cluster, volume, host string) string {
	t.Helper()
	list, err := c.Longhorn.LonghornV1beta2().Replicas(longhornNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range list.Items {
		if r := &list.Items[n]; r.Spec.VolumeName == volume && r.Spec.NodeID == host {
			return r.Name
		}
	}
	t.Fatalf("volume %s has no replica on %s", volume, host)
	return ""
}

// health makes the replica of a volume on a host healthy, rebuilding or failed, and
// waits until Longhorn shows it.
func health(t *testing.T, c *cluster.Cluster, volume, host, state string) {
	t.Helper()
	name, client := replica(t, c, volume, host), c.Longhorn.LonghornV1beta2().Replicas(longhornNamespace)
	operator.Patch(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"sim.drydock.dev/state": state}}}, func(ctx context.Context, raw []byte) error {
		_, err := client.Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
	eventually(t, c, "the replica is "+state, func() bool {
		r, err := client.Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && (r.Spec.HealthyAt != "" && r.Spec.FailedAt == "") == (state == "healthy")
	})
}

// A volume that somebody uses elsewhere must not lose its last healthy copy, whoever the
// user is. Users that are gone do not count.
func TestTheLastCopyOfAVolumeInUseElsewhereRefusesMaintenance(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	of := map[string]string{
		"ofvm": volume(t, c, ns, "ofvm", host), "ofpods": volume(t, c, ns, "ofpods", host),
		"rebuilding": volume(t, c, ns, "rebuilding", host, other), "spread": volume(t, c, ns, "spread", host, other),
		// Those of VMs here are the VMs' business: one is to be shut down, and may.
		"here": volume(t, c, ns, "here", host),
	}
	on := func(name string) *cluster.VM { return c.VM(ns, name).On(other).PinnedTo(pool).Claim(name) }
	labels := map[string]string{"pod": "plain"}
	template := onlyOn(other, labels)
	template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "ofpods"}}}}
	template.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/data"}}
	deploy := func() {
		t.Helper()
		if _, err := c.Kube.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	deploy()
	operator.Create(t, on("ofvm"), on("rebuilding"), on("spread"), c.VM(ns, "here").On(host).PinnedTo(pool).Claim("here").Strategy("Shutdown"))
	for name, replicas := range map[string]int{"ofvm": 1, "ofpods": 1, "rebuilding": 2, "spread": 2, "here": 1} {
		awaitHealthy(t, c, of[name], replicas)
	}
	health(t, c, of["rebuilding"], other, "rebuilding")

	operator.Force(t, c, host) // force overrides none of these
	node := awaitRefused(t, c, host, "volume "+of["ofvm"], "VirtualMachineInstance "+ns+"/ofvm", "volume "+of["ofpods"], ns+"/web", "volume "+of["rebuilding"])
	for _, name := range []string{"spread", "here"} {
		if operator.Holds(maintenance.Condition(node).Message, []string{of[name]}) {
			t.Errorf("volume %s is no reason to refuse: %s", of[name], maintenance.Condition(node).Message)
		}
	}

	health(t, c, of["rebuilding"], other, "healthy")
	operator.PatchVM(t, c, ns, "ofvm", map[string]any{"spec": map[string]any{"runStrategy": virtv1.RunStrategyHalted}})
	c.AwaitNoVMI(t, ns, "ofvm")
	if err := c.Kube.AppsV1().Deployments(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "nobody uses the Deployment's volume", func() bool {
		v, err := c.Longhorn.LonghornV1beta2().Volumes(longhornNamespace).Get(t.Context(), of["ofpods"], metav1.GetOptions{})
		return err == nil && v.Status.State == longhornv1.VolumeStateDetached
	})
	operator.RequestUntilAdmitted(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitMessage(t, c, host, "reboot yes, remove no", of["ofvm"], of["ofpods"])
	// Somebody begins to use one of them again, which takes no replica's change.
	deploy()
	operator.AwaitMessage(t, c, host, "do not reboot", of["ofpods"], ns+"/web")
}

// A VM whose last healthy copy is here cannot move.
func TestAVMWhoseLastCopyIsHereBlocks(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	sole, spread := volume(t, c, ns, "sole", host), volume(t, c, ns, "spread", host, other)
	operator.Create(t, operator.Movable(c, ns, "sole", pool).Claim("sole"), operator.Movable(c, ns, "spread", pool).Claim("spread"))
	awaitHealthy(t, c, sole, 1)
	awaitHealthy(t, c, spread, 2)

	operator.Request(t, c, host)
	node := awaitRefused(t, c, host, "VM "+ns+"/sole", "the last healthy replica of its volume "+sole, "kubectl label vm")
	if message := maintenance.Condition(node).Message; operator.Holds(message, []string{spread}) {
		t.Errorf("a VM that can move is named: %s", message)
	}
}

// Storage is looked at again before Completed, and watched afterwards.
func TestACopyThatIsLostMeanwhileKeepsTheNodeFromBeingRebooted(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	data := volume(t, c, ns, "data", host, other)
	operator.Create(t, c.VM(ns, "elsewhere").On(other).PinnedTo(pool).Claim("data"))
	awaitHealthy(t, c, data, 2)
	held := plainPod(ns, "held", host)
	held.Finalizers = []string{holdFinalizer}
	t.Cleanup(func() { letGo(t, c, ns, "held") })
	createPods(t, c, held)

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "1 pod left")
	health(t, c, data, other, "failed")
	letGo(t, c, ns, "held")
	node := operator.AwaitMessage(t, c, host, "must not be taken down", data)
	if phase := maintenance.PhaseOf(node); phase != maintenance.PhaseEvacuating {
		t.Errorf("the node is %s and holds the last copy of a volume in use", phase)
	}
	health(t, c, data, other, "healthy")
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	health(t, c, data, other, "failed")
	operator.AwaitMessage(t, c, host, "do not reboot", data)
	health(t, c, data, other, "healthy")
	operator.AwaitMessage(t, c, host, "may be rebooted")
}

// instanceManager makes a pod as Longhorn runs on each of its nodes, with a budget.
func instanceManager(t *testing.T, c *cluster.Cluster, host, pdb string) *corev1.Pod {
	t.Helper()
	pod := plainPod(longhornNamespace, "instance-manager-"+host, host)
	pod.Labels = map[string]string{"longhorn.io/component": "instance-manager", "longhorn.io/node": host}
	budget(t, c, longhornNamespace, pdb, map[string]string{"longhorn.io/node": host}, atLeast(1))
	t.Cleanup(func() {
		ctx, now := context.WithoutCancel(t.Context()), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		for _, err := range []error{
			c.Kube.PolicyV1().PodDisruptionBudgets(longhornNamespace).Delete(ctx, pdb, now),
			c.Kube.CoreV1().Pods(longhornNamespace).Delete(ctx, pod.Name, now),
		} {
			if err != nil && !apierrors.IsNotFound(err) {
				t.Log(err)
			}
		}
	})
	return createPods(t, c, pod)[pod.Name]
}

// Longhorn keeps the budget of an instance manager at zero while the last copy of a
// volume is beside it. What is told is not only the budget, whose name may be another
// node's, but which volume, which replica and which policy.
func TestAHeldInstanceManagerIsExplained(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	sole := volume(t, c, ns, "sole", host)
	operator.Create(t, c.VM(ns, "stopped").On(host).PinnedTo(pool).Claim("sole"))
	awaitHealthy(t, c, sole, 1)
	operator.PatchVM(t, c, ns, "stopped", map[string]any{"spec": map[string]any{"runStrategy": virtv1.RunStrategyHalted}})
	c.AwaitNoVMI(t, ns, "stopped")
	manager := instanceManager(t, c, host, "instance-manager-"+other)
	shares := plainPod(longhornNamespace, "share-manager-"+host, host)
	shares.Labels = map[string]string{"longhorn.io/component": "share-manager"}
	share := createPods(t, c, shares)[shares.Name]
	history := c.RecordVM(t, ns, "stopped")

	operator.Request(t, c, host)
	awaitPodGone(t, c, share)
	operator.AwaitMessage(t, c, host, longhornNamespace+"/"+manager.Name, "PDB "+longhornNamespace+"/instance-manager-"+other,
		"volume "+sole, replica(t, c, sole, host), "node-drain-policy")
	// Longhorn's policy lets it go.
	if err := c.Kube.PolicyV1().PodDisruptionBudgets(longhornNamespace).Delete(t.Context(), "instance-manager-"+other, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPodGone(t, c, manager)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitMessage(t, c, host, sole+": reboot yes, remove no")
	// Longhorn starts it again, on a node that it chooses itself.
	createPods(t, c, plainPod(longhornNamespace, manager.Name, host))
	awaitPass(t, c, host)
	if phase := maintenance.PhaseOf(getNode(t, c, host)); phase != maintenance.PhaseCompleted {
		t.Errorf("the instance manager is back, and the node is %s", phase)
	}
	never(t, "the stopped VM was touched", history.To(t, operator.GetVM(t, c, ns, "stopped")), func(vm *virtv1.VirtualMachine) bool {
		return !halted(vm) || operator.HasMarker(vm)
	})
}

// A backup keeps a volume attached, and so the instance manager. It is named, awaited and
// never cut short.
func TestABackupIsAwaitedByName(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host, other := pool.Host(0), pool.Host(1)
	data := volume(t, c, ns, "data", host, other)
	// No drain removes such a pod, and it keeps the volume attached as Longhorn would for
	// the backup.
	user := plainPod(ns, "attacher", host)
	user.Labels = map[string]string{"app": "csi-attacher"}
	user.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	user.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/data"}}
	createPods(t, c, user)
	awaitHealthy(t, c, data, 2)
	attachments := c.Dynamic.Resource(longhornv1.SchemeGroupVersion.WithResource("volumeattachments")).Namespace(longhornNamespace)
	if _, err := attachments.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": longhornv1.SchemeGroupVersion.String(), "kind": "VolumeAttachment", "metadata": map[string]any{"name": data},
		"spec": map[string]any{"volume": data, "attachmentTickets": map[string]any{
			"backup": map[string]any{"id": "backup", "type": string(longhornv1.AttacherTypeBackupController), "nodeID": host},
		}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := attachments.Delete(context.WithoutCancel(t.Context()), data, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	manager := instanceManager(t, c, host, "held-"+host)

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, longhornNamespace+"/"+manager.Name, "a backup of volume "+data+" is running")
	if now, err := attachments.Get(t.Context(), data, metav1.GetOptions{}); err != nil || now.GetGeneration() != 1 {
		t.Errorf("the backup's attachment was touched: %v", err)
	}
	// The backup ends.
	if err := c.Kube.PolicyV1().PodDisruptionBudgets(longhornNamespace).Delete(t.Context(), "held-"+host, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPodGone(t, c, manager)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
}
