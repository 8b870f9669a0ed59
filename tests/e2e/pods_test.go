package e2e

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// onlyOn is a pod template that the scheduler brings to one host.
func onlyOn(host string, labels map[string]string) corev1.PodTemplateSpec {
	spec := podSpec("")
	spec.NodeSelector = map[string]string{corev1.LabelHostname: host}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
}

func daemonSet(t *testing.T, c *cluster.Cluster, namespace, name, host string) *corev1.Pod {
	t.Helper()
	labels := map[string]string{"pod": name}
	_, err := c.Kube.AppsV1().DaemonSets(namespace).Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: onlyOn(host, labels)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return awaitPodOf(t, c, namespace, "pod="+name, host, podIsReady)
}

// finishedJob is the pod of a Job that has done its work.
func finishedJob(t *testing.T, c *cluster.Cluster, namespace, name, host string) *corev1.Pod {
	t.Helper()
	template := onlyOn(host, map[string]string{"pod": name})
	template.Annotations = map[string]string{"sim.drydock.dev/exit-after-seconds": "0"}
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err := c.Kube.BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: template}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return awaitPodOf(t, c, namespace, "pod="+name, host, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
}

// Which pods a drain takes along and which it leaves, as kubectl drain with
// --ignore-daemonsets, --delete-emptydir-data and --force would, and without those that
// others need for their work.
func TestADrainTakesTheRightPods(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	stays := map[string]*corev1.Pod{"daemon": daemonSet(t, c, ns, "daemon", host)}
	orphan := daemonSet(t, c, ns, "orphan", host)
	leaveIt := metav1.DeletePropagationOrphan
	if err := c.Kube.AppsV1().DaemonSets(ns).Delete(t.Context(), "orphan", metav1.DeleteOptions{PropagationPolicy: &leaveIt}); err != nil {
		t.Fatal(err)
	}
	goes := map[string]*corev1.Pod{"orphan": orphan, "finished": finishedJob(t, c, ns, "finished", host)}

	naked, done := plainPod(ns, "naked", host), plainPod(ns, "done", host)
	naked.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	done.Spec.RestartPolicy, done.Annotations = corev1.RestartPolicyNever, map[string]string{"sim.drydock.dev/exit-after-seconds": "0"}
	mirror, attacher, provisioner, helper := plainPod(ns, "mirror", host), plainPod(ns, "attacher", host), plainPod(ns, "provisioner", host), plainPod(ns, "helper", host)
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "0"}
	attacher.Labels["app"], provisioner.Labels["app"] = "csi-attacher", "csi-provisioner"
	helper.Labels[virtv1.AppLabel] = "hotplug-disk"
	for name, pod := range createPods(t, c, naked, done, mirror, attacher, provisioner, helper) {
		if name == "naked" || name == "done" {
			goes[name] = pod
		} else {
			stays[name] = pod
		}
	}
	mark := c.Audit(t, "drydock")

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	for _, pod := range goes {
		awaitPodGone(t, c, pod)
	}
	requests := mark.Requests(t)
	for name, pod := range stays {
		now, err := c.Kube.CoreV1().Pods(ns).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil || now.UID != pod.UID || now.DeletionTimestamp != nil {
			t.Errorf("the pod %s should be left alone (%v)", name, err)
		}
		for _, r := range evictionsOf(requests, ns, pod.Name) {
			t.Errorf("the pod %s should be left alone: %s", name, r)
		}
	}
	for _, r := range requests {
		if r.Resource == "pods" && r.Subresource == "" && r.Namespace == ns && r.Verb == "delete" {
			t.Errorf("a pod was deleted instead of evicted: %s", r)
		}
	}
}

// VMIs that have ended do not hold a node, and nothing is started because of them.
func TestVMIsThatHaveEndedDoNotHoldTheNode(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	with := func(name string, way virtv1.VirtualMachineRunStrategy, guest string) {
		c.VM(ns, name).On(host).PinnedTo(pool).RunStrategy(way).Annotate("sim.drydock.dev/guest", guest).Submit(t)
	}
	with("succeeded", virtv1.RunStrategyOnce, "power-off")
	with("failed", virtv1.RunStrategyOnce, "crash")
	first := map[string]types.UID{}
	for name, phase := range map[string]virtv1.VirtualMachineInstancePhase{"succeeded": virtv1.Succeeded, "failed": virtv1.Failed} {
		first[name] = c.AwaitVMI(t, ns, name, "the guest has ended", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.Status.Phase == phase }).UID
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := c.Kube.CoreV1().Pods(ns).DeleteCollection(t.Context(), now, metav1.ListOptions{LabelSelector: "vm.kubevirt.io/name=failed"}); err != nil {
		t.Fatal(err)
	}

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	for name, uid := range first {
		if vmi := getVMI(t, c, ns, name); vmi.UID != uid {
			t.Errorf("%s had ended, and was started again", name)
		}
	}
}

const holdFinalizer = "test.drydock.dev/hold"

// letGo takes the test's finalizer off a pod.
func letGo(t *testing.T, c *cluster.Cluster, namespace, name string) {
	t.Helper()
	_, err := c.Kube.CoreV1().Pods(namespace).Patch(context.WithoutCancel(t.Context()), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// A pod gets its own grace period, and one that hangs is waited for on a node that
// answers; in a namespace that is being deleted as anywhere else.
func TestAPodThatIsTerminatingIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, ending, pool := c.Namespace(t), c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	polite, dying := plainPod(ns, "polite", host), plainPod(ending, "dying", host)
	for _, pod := range []*corev1.Pod{polite, dying} {
		pod.Finalizers, pod.Spec.TerminationGracePeriodSeconds = []string{holdFinalizer}, seconds(5)
		// It uses its grace period up: a kubelet that is done would write 0.
		pod.Annotations = map[string]string{"sim.drydock.dev/termination-seconds": "never"}
		t.Cleanup(func() { letGo(t, c, pod.Namespace, pod.Name) })
	}
	createPods(t, c, polite, dying, plainPod(ns, "other", host))
	operator.Create(t, c.VM(ending, "vm").On(host).PinnedTo(pool).Strategy("ShutdownAndRestartAfterDisable"))
	vmis := c.RecordVMI(t, ending, "vm")
	if err := c.Kube.CoreV1().Namespaces().Delete(t.Context(), ending, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, c, ending, "dying", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })

	operator.Request(t, c, host)
	pod := awaitPod(t, c, ns, "polite", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	if grace := pod.DeletionGracePeriodSeconds; grace == nil || *grace != 5 {
		t.Errorf("the pod was evicted with a grace period of %v, its own is 5 s", grace)
	}
	operator.AwaitPhase(t, c, host, maintenance.PhaseEvacuating)
	operator.AwaitMessage(t, c, host, "2 pods left")
	letGo(t, c, ending, "dying")
	operator.AwaitMessage(t, c, host, "1 pod left")
	if phase := maintenance.PhaseOf(getNode(t, c, host)); phase != maintenance.PhaseEvacuating {
		t.Errorf("the node is %s while a pod is terminating", phase)
	}
	letGo(t, c, ns, "polite")
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	eventually(t, c, "the namespace is gone", func() bool {
		_, err := c.Kube.CoreV1().Namespaces().Get(t.Context(), ending, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if n := len(instances(vmis.Versions())); n != 1 {
		t.Errorf("the VM of a namespace that is being deleted had %d instances", n)
	}
}

// A pod that tolerates everything comes back to the node at once. That is noted, and
// the drain ends all the same.
func TestAPodThatComesBackIsNotChased(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	labels := map[string]string{"pod": "clingy"}
	template := onlyOn(host, labels)
	template.Annotations = map[string]string{"sim.drydock.dev/termination-seconds": "3"}
	template.Spec.TerminationGracePeriodSeconds = seconds(10)
	template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	if _, err := c.Kube.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "clingy"},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	first := awaitPodOf(t, c, ns, "pod=clingy", host, podIsReady)
	mark := c.Audit(t, "drydock")

	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	again := awaitPodOf(t, c, ns, "pod=clingy", host, podIsReady)
	if again.UID == first.UID {
		t.Error("the pod was not evicted at all")
	}
	if n := len(evictions(t, mark, ns)); n != 1 {
		t.Errorf("%d evictions were sent for a pod that comes back, want one", n)
	}
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceCompleted", ns+"/"+again.Name)
}
