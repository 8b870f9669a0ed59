package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// Kubelet runs the pods of every powered host.
type kubelet struct {
	client     kubernetes.Interface
	pods       cache.Indexer
	nodes      cache.Indexer
	registry   *registry
	addresses  *addresses
	guests     *guests
	complaints *complaints
	events     record.EventRecorder
	log        *slog.Logger

	loop *loop
}

// An outcome is how a pod's containers ended. Nil means that they run.
type outcome struct {
	code    int32
	reason  string // of the pod, empty for an ordinary end
	message string
}

const (
	exitKilled   = 137 // 128 + SIGKILL, what a container that outlived its grace ends with
	exitPanicked = 2   // what a Go program ends with
	exitLost     = 255 // what kubelet writes when nothing is known of a container any more
)

// launcherPatience is how long a launcher waits for a domain before it gives up, such as
// the target of a migration that is no more. KubeVirt gives it four to six minutes, which
// is longer than a test wants to wait.
const launcherPatience = time.Minute

func (k *kubelet) reconcile(ctx context.Context, key string) (time.Duration, error) {
	object, exists, err := k.pods.GetByKey(key)
	if err != nil || !exists {
		return 0, err
	}
	pod := object.(*corev1.Pod)
	on, powered := k.registry.powered(pod.Spec.NodeName)
	if !powered {
		return 0, nil
	}
	behaviour := settings{annotations: pod.Annotations}
	again, err := k.sync(ctx, pod, on, &behaviour)
	k.complaints.about(pod, pod.UID, key, behaviour.bad)
	return again, err
}

// sync brings one pod a step further. The order is kubelet's: what is over
// stays over, then a dead host's remains, then termination, then running.
func (k *kubelet) sync(ctx context.Context, pod *corev1.Pod, on host, behaviour *settings) (time.Duration, error) {
	now := time.Now()
	if podIsTerminal(pod) {
		if pod.DeletionTimestamp != nil {
			return 0, k.remove(ctx, pod)
		}
		return 0, nil
	}
	restart := false
	if k.registry.lost(on, pod.UID) {
		if pod.DeletionTimestamp != nil || pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			return 0, k.end(ctx, pod, outcome{code: exitLost, message: "The host lost power, the containers are gone."})
		}
		restart = true
	}
	if pod.DeletionTimestamp != nil {
		over, again := k.terminating(pod, behaviour, now)
		if over != nil {
			return 0, k.end(ctx, pod, *over)
		}
		return again, nil
	}
	if pod.Status.StartTime == nil {
		if refusal := k.admit(pod); refusal != nil {
			k.events.Event(pod, corev1.EventTypeWarning, refusal.reason, refusal.message)
			return 0, k.end(ctx, pod, *refusal)
		}
		return 0, k.keepRunning(ctx, pod, on, behaviour, restart, now)
	}
	over, again := k.finished(pod, behaviour, now)
	if over != nil {
		return 0, k.end(ctx, pod, *over)
	}
	if err := k.keepRunning(ctx, pod, on, behaviour, restart, now); err != nil {
		return 0, err
	}
	return again, k.registry.recovered(on, pod.UID)
}

// admit repeats the check that every kubelet makes on a pod that somebody bound
// without asking the scheduler.
func (k *kubelet) admit(pod *corev1.Pod) *outcome {
	object, exists, err := k.nodes.GetByKey(pod.Spec.NodeName)
	if err != nil || !exists {
		return nil
	}
	labels := object.(*corev1.Node).Labels
	for key, value := range pod.Spec.NodeSelector {
		if labels[key] != value {
			return &outcome{code: 1, reason: "NodeAffinity", message: "Pod was rejected: Predicate NodeAffinity failed"}
		}
	}
	return nil
}

// finished tells whether containers ended by themselves or by kubelet's
// deadline, and otherwise when to look again.
func (k *kubelet) finished(pod *corev1.Pod, behaviour *settings, now time.Time) (*outcome, time.Duration) {
	if isLauncher(pod) {
		if code, gone := k.guests.launcherExit(pod.UID); gone {
			return &outcome{code: code}, 0
		}
	}
	var again time.Duration
	started := pod.Status.StartTime.Time
	if isLauncher(pod) && k.guests.waits(pod.UID) {
		left := started.Add(launcherPatience).Sub(now)
		if left <= 0 {
			return &outcome{code: exitPanicked, message: "timed out waiting for domain to be defined"}, 0
		}
		again = left
	}
	if limit := pod.Spec.ActiveDeadlineSeconds; limit != nil {
		left := started.Add(time.Duration(*limit) * time.Second).Sub(now)
		if left <= 0 {
			return &outcome{code: exitKilled, reason: "DeadlineExceeded", message: "Pod was active on the node longer than the specified deadline"}, 0
		}
		again = sooner(again, left)
	}
	if _, set := pod.Annotations[annotationExitAfter]; !set {
		return nil, again
	}
	after := behaviour.seconds(annotationExitAfter, never, false)
	if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		behaviour.reject(annotationExitAfter, "only pods whose restartPolicy is Never or OnFailure can finish")
		return nil, again
	}
	left := started.Add(after).Sub(now)
	if after < never && left <= 0 {
		return &outcome{}, 0
	}
	return nil, sooner(again, left)
}

// keepRunning writes the status of a pod whose containers run.
func (k *kubelet) keepRunning(ctx context.Context, pod *corev1.Pod, on host, behaviour *settings, restart bool, now time.Time) error {
	ip := on.ip
	if !pod.Spec.HostNetwork {
		var err error
		if ip, err = k.addresses.pod(on.name, pod.UID, pod.Status.PodIP); err != nil {
			return fmt.Errorf("start pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	crashing := behaviour.oneOf(annotationReady, wordTrue, wordFalse) == wordFalse
	return k.patchStatus(ctx, pod, func(status *corev1.PodStatus) {
		fillRunning(pod, status, running{hostIP: on.ip, podIP: ip, crashing: crashing, restart: restart, now: metav1.NewTime(now)})
	})
}

// end makes a pod terminal; a pod that is being deleted is removed by the event
// that follows, as kubelet does it: status first, object later.
func (k *kubelet) end(ctx context.Context, pod *corev1.Pod, how outcome) error {
	return k.patchStatus(ctx, pod, func(status *corev1.PodStatus) {
		fillEnded(pod, status, how, metav1.Now())
	})
}

// remove deletes a pod object whose containers are all gone.
func (k *kubelet) remove(ctx context.Context, pod *corev1.Pod) error {
	if grace := pod.DeletionGracePeriodSeconds; grace != nil && *grace == 0 {
		// Done before. What is left waits for somebody's finalizer.
		return nil
	}
	now := int64(0)
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now,
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
	// A conflict says that the name belongs to another pod by now.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// patchStatus writes only what changed. Conditions of others, such as
// virt-controller's readiness gate, merge by their type.
func (k *kubelet) patchStatus(ctx context.Context, pod *corev1.Pod, edit func(*corev1.PodStatus)) error {
	status := pod.Status.DeepCopy()
	edit(status)
	if equality.Semantic.DeepEqual(&pod.Status, status) {
		return nil
	}
	before, err := json.Marshal(corev1.Pod{Status: pod.Status})
	if err != nil {
		return fmt.Errorf("encode the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	after, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: *status})
	if err != nil {
		return fmt.Errorf("encode the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
	if err != nil {
		return fmt.Errorf("compute the status patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func podIsTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
