package simulator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestDeploymentPodsRunAndAreReplaced(t *testing.T) {
	s := newScene(t, 1)
	labels := map[string]string{"app": "web"}
	_, err := s.kube.AppsV1().Deployments(s.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: s.podSpec()},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	ready := s.podsAre("app=web", "are two, ready, with addresses of their own", func(pods []corev1.Pod) bool {
		return len(pods) == 2 && !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return podReady(&pod) != corev1.ConditionTrue }) &&
			pods[0].Status.PodIP != pods[1].Status.PodIP && pods[0].Status.PodIP != ""
	})
	if id := ready[0].Status.ContainerStatuses[0].ImageID; !strings.Contains(id, "@sha256:") {
		t.Errorf("image ID %q has no digest", id)
	}
	s.deletePod(ready[0].Name)
	s.podGone(&ready[0])
	s.podsAre("app=web", "are two again", func(pods []corev1.Pod) bool { return len(pods) == 2 })
}

func TestDaemonSetPodsRunOnEveryHost(t *testing.T) {
	s := newScene(t, 2)
	labels := map[string]string{"app": "agent"}
	_, err := s.kube.AppsV1().DaemonSets(s.namespace).Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: s.podSpec()},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	s.eventually("the DaemonSet is ready", func(ctx context.Context) (string, bool) {
		set, err := s.kube.AppsV1().DaemonSets(s.namespace).Get(ctx, "agent", metav1.GetOptions{})
		return fmt.Sprintf("%+v", set.Status), err == nil && set.Status.NumberReady == 2
	})
}

func TestJobFinishes(t *testing.T) {
	s := newScene(t, 1)
	spec := s.podSpec()
	spec.RestartPolicy = corev1.RestartPolicyNever
	_, err := s.kube.BatchV1().Jobs(s.namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"sim.drydock.dev/exit-after-seconds": "1"}}, Spec: spec,
		}},
	}, metav1.CreateOptions{})
	s.must(err)
	s.eventually("the job is complete", func(ctx context.Context) (string, bool) {
		job, err := s.kube.BatchV1().Jobs(s.namespace).Get(ctx, "job", metav1.GetOptions{})
		return fmt.Sprintf("%+v", job.Status), err == nil && job.Status.CompletionTime != nil
	})
}

func TestInitContainersAndSidecars(t *testing.T) {
	s := newScene(t, 1)
	spec := s.podSpec()
	spec.InitContainers = []corev1.Container{
		{Name: "setup", Image: "example.org/setup:1"},
		{Name: "sidecar", Image: "example.org/sidecar:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
	}
	s.createPod("pod", nil, spec)
	pod := s.podIs("pod", "is ready", isReady)
	setup, sidecar := pod.Status.InitContainerStatuses[0], pod.Status.InitContainerStatuses[1]
	if setup.State.Terminated == nil || setup.State.Terminated.ExitCode != 0 || sidecar.State.Running == nil {
		t.Errorf("setup %+v, sidecar %+v", setup.State, sidecar.State)
	}
}

func TestReadinessGateDecides(t *testing.T) {
	s := newScene(t, 1)
	spec := s.podSpec()
	spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.org/open"}}
	s.createPod("pod", nil, spec)
	pod := s.podIs("pod", "runs and is not ready", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodRunning && podReady(pod) == corev1.ConditionFalse
	})
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "example.org/open", Status: corev1.ConditionTrue})
	_, err := s.kube.CoreV1().Pods(s.namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	s.must(err)
	s.podIs("pod", "is ready", isReady)
}

func TestCrashLoopingPodIsNotReady(t *testing.T) {
	s := newScene(t, 1)
	s.createPod("pod", map[string]string{"sim.drydock.dev/ready": "false"}, s.podSpec())
	s.podIs("pod", "crash-loops", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodRunning && podReady(pod) == corev1.ConditionFalse &&
			pod.Status.ContainerStatuses[0].State.Waiting != nil
	})
}

func TestTerminationTakesItsTimeWithinTheGrace(t *testing.T) {
	s := newScene(t, 1)
	slow, deaf := s.podSpec(), s.podSpec()
	slow.TerminationGracePeriodSeconds, deaf.TerminationGracePeriodSeconds = ptr.To[int64](60), ptr.To[int64](2)
	s.createPod("slow", map[string]string{"sim.drydock.dev/termination-seconds": "2"}, slow)
	s.createPod("deaf", map[string]string{"sim.drydock.dev/termination-seconds": "never"}, deaf)
	for name, wanted := range map[string]corev1.PodPhase{"slow": corev1.PodSucceeded, "deaf": corev1.PodFailed} {
		pod := s.podIs(name, "is ready", isReady)
		begin := time.Now()
		if got := s.lastPhase(name, func() { s.deletePod(name) }); got != wanted {
			t.Errorf("pod %s ended %s", name, got)
		}
		if took := time.Since(begin); took < time.Second || took > 30*time.Second {
			t.Errorf("pod %s took %s", name, took)
		}
		s.podGone(pod)
	}
}

func TestPodForAnotherHostIsRejected(t *testing.T) {
	s := newScene(t, 1)
	spec := s.podSpec()
	spec.NodeName, spec.NodeSelector = s.hosts[0], map[string]string{"example.org/no-such": "host"}
	s.createPod("pod", nil, spec)
	s.podIs("pod", "is rejected", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "NodeAffinity"
	})
}

func TestStaticPodComesBack(t *testing.T) {
	s := newScene(t, 1)
	node, err := s.kube.CoreV1().Nodes().Get(t.Context(), s.hosts[0], metav1.GetOptions{})
	s.must(err)
	spec := s.podSpec()
	spec.NodeName, spec.NodeSelector = s.hosts[0], nil
	pod, err := s.kube.CoreV1().Pods(s.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "static",
			Annotations: map[string]string{
				"kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "1", "kubernetes.io/config.hash": "1",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: ptr.To(true)}},
		},
		Spec: spec,
	}, metav1.CreateOptions{})
	s.must(err)
	s.podIs("static", "runs", isReady)
	s.deletePod("static")
	s.podIs("static", "is back", func(now *corev1.Pod) bool { return now.UID != pod.UID && isReady(now) })
}

func TestHostWithALongNameWithDots(t *testing.T) {
	s := newScene(t, 0)
	name := strings.Repeat("rack-17.", 29) + s.namespace
	name = name[:min(len(name), 253)]
	s.addHost(name)
	s.eventually("the host is ready", func(ctx context.Context) (string, bool) {
		node, err := s.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return fmt.Sprint(err), err == nil && nodeReady(node) == corev1.ConditionTrue && node.Labels[corev1.LabelHostname] != ""
	})
}

func (s *scene) podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector: map[string]string{sceneLabel: s.namespace},
		Containers:   []corev1.Container{{Name: "main", Image: "example.org/main:1"}},
	}
}

func (s *scene) createPod(name string, annotations map[string]string, spec corev1.PodSpec) {
	s.t.Helper()
	_, err := s.kube.CoreV1().Pods(s.namespace).Create(s.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: spec,
	}, metav1.CreateOptions{})
	s.must(err)
}

func (s *scene) deletePod(name string) {
	s.t.Helper()
	s.must(s.kube.CoreV1().Pods(s.namespace).Delete(s.t.Context(), name, metav1.DeleteOptions{}))
}

func isReady(pod *corev1.Pod) bool { return podReady(pod) == corev1.ConditionTrue }

func (s *scene) podsAre(selector, what string, check func([]corev1.Pod) bool) []corev1.Pod {
	s.t.Helper()
	var found []corev1.Pod
	s.eventually("pods "+selector+" "+what, func(ctx context.Context) (string, bool) {
		list, err := s.kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err.Error(), false
		}
		found = list.Items
		return fmt.Sprintf("%d pods", len(found)), check(found)
	})
	return found
}

// lastPhase follows a pod by watch until its object is gone.
func (s *scene) lastPhase(name string, do func()) corev1.PodPhase {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	changes, err := s.kube.CoreV1().Pods(s.namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	s.must(err)
	defer changes.Stop()
	do()
	for change := range changes.ResultChan() {
		if pod, ok := change.Object.(*corev1.Pod); ok && change.Type == "DELETED" {
			return pod.Status.Phase
		}
	}
	s.t.Fatalf("pod %s is not gone within %s", name, patience)
	return ""
}
