package simulator

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
)

const launcherAppLabel = "virt-launcher"

// isLauncher tells a virt-launcher from other pods, among them the attachment
// pods of hot-plugged disks, which a launcher owns and which hold no guest.
func isLauncher(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == virtv1.VirtualMachineInstanceGroupVersionKind.Kind &&
		pod.Labels[virtv1.AppLabel] == launcherAppLabel
}

// terminating tells how a pod with a deletion timestamp ended, or when to look
// again. The deletion timestamp is the request's time plus the grace period:
// the moment at which kubelet kills.
func (k *kubelet) terminating(pod *corev1.Pod, behaviour *settings, now time.Time) (*outcome, time.Duration) {
	if pod.Status.StartTime == nil {
		return &outcome{}, 0
	}
	deadline := pod.DeletionTimestamp.Time
	killed := &outcome{code: exitKilled}
	if isLauncher(pod) {
		if code, gone := k.guests.launcherExit(pod.UID); gone {
			return &outcome{code: code}, 0
		}
		// SIGTERM makes a launcher shut its guest down and wait; one without a
		// guest has nothing to wait for.
		if !k.guests.inPod(pod.UID) {
			return &outcome{}, 0
		}
		if left := deadline.Sub(now); left > 0 {
			return nil, left
		}
		return killed, 0
	}
	requested := deadline
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		requested = deadline.Add(-time.Duration(*grace) * time.Second)
	}
	needs := behaviour.seconds(annotationTermination, 0, true)
	if needs == 0 {
		return &outcome{}, 0
	}
	if stops := requested.Add(needs); needs < never && !stops.After(deadline) {
		if left := stops.Sub(now); left > 0 {
			return nil, left
		}
		return &outcome{}, 0
	}
	if left := deadline.Sub(now); left > 0 {
		return nil, left
	}
	return killed, 0
}
