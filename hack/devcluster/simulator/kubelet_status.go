package simulator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Running is what kubelet knows about a pod whose containers run.
type running struct {
	hostIP, podIP string
	crashing      bool
	restart       bool // every container is started anew, after a power loss
	now           metav1.Time
}

func fillRunning(pod *corev1.Pod, status *corev1.PodStatus, facts running) {
	status.Phase = corev1.PodRunning
	status.HostIP, status.HostIPs = facts.hostIP, []corev1.HostIP{{IP: facts.hostIP}}
	status.PodIP, status.PodIPs = facts.podIP, []corev1.PodIP{{IP: facts.podIP}}
	if status.StartTime == nil {
		status.StartTime = ptr.To(facts.now)
	}
	status.InitContainerStatuses = initStatuses(pod, status.InitContainerStatuses, facts)
	var containers []corev1.ContainerStatus
	for _, container := range pod.Spec.Containers {
		containers = append(containers, containerRunning(pod, container, statusOf(status.ContainerStatuses, container.Name), facts))
	}
	status.ContainerStatuses = containers

	setPodCondition(status, corev1.PodScheduled, corev1.ConditionTrue, "", "", facts.now)
	setPodCondition(status, corev1.PodReadyToStartContainers, corev1.ConditionTrue, "", "", facts.now)
	setPodCondition(status, corev1.PodInitialized, corev1.ConditionTrue, "", "", facts.now)
	if facts.crashing {
		message := "containers with unready status: [" + strings.Join(containerNames(pod), " ") + "]"
		setPodCondition(status, corev1.ContainersReady, corev1.ConditionFalse, "ContainersNotReady", message, facts.now)
		setPodCondition(status, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", message, facts.now)
		return
	}
	setPodCondition(status, corev1.ContainersReady, corev1.ConditionTrue, "", "", facts.now)
	if closed := closedGates(pod, status); len(closed) > 0 {
		setPodCondition(status, corev1.PodReady, corev1.ConditionFalse, "ReadinessGatesNotReady", strings.Join(closed, ", "), facts.now)
		return
	}
	setPodCondition(status, corev1.PodReady, corev1.ConditionTrue, "", "", facts.now)
}

// closedGates explains which readiness gates keep the pod from being Ready.
// Launchers carry one that virt-controller opens when the guest is not paused.
func closedGates(pod *corev1.Pod, status *corev1.PodStatus) []string {
	var closed []string
	for _, gate := range pod.Spec.ReadinessGates {
		value := corev1.ConditionUnknown
		for _, condition := range status.Conditions {
			if condition.Type == gate.ConditionType {
				value = condition.Status
			}
		}
		switch value {
		case corev1.ConditionTrue:
		case corev1.ConditionUnknown:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		default:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", gate.ConditionType, value))
		}
	}
	return closed
}

// initStatuses: ordinary init containers have run, native sidecars (restartPolicy
// Always) are running.
func initStatuses(pod *corev1.Pod, old []corev1.ContainerStatus, facts running) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for _, container := range pod.Spec.InitContainers {
		before := statusOf(old, container.Name)
		if policy := container.RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			facts := facts
			facts.crashing = false
			statuses = append(statuses, containerRunning(pod, container, before, facts))
			continue
		}
		if before == nil || before.State.Terminated == nil {
			done := newContainerStatus(pod, container)
			done.Ready, done.Started = true, ptr.To(false)
			done.State = terminated(0, facts.now, facts.now, done.ContainerID)
			before = &done
		}
		statuses = append(statuses, *before)
	}
	return statuses
}

func containerRunning(pod *corev1.Pod, container corev1.Container, before *corev1.ContainerStatus, facts running) corev1.ContainerStatus {
	status := newContainerStatus(pod, container)
	if before != nil {
		status = *before.DeepCopy()
		status.ImageID, status.Image = imageID(container.Image), container.Image
	}
	if facts.crashing {
		if status.State.Waiting == nil {
			status.LastTerminationState = terminated(1, facts.now, facts.now, status.ContainerID)
			status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "CrashLoopBackOff", Message: "back-off 5m0s restarting failed container=" + container.Name,
			}}
			status.RestartCount++
		}
		status.Ready, status.Started = false, ptr.To(false)
		return status
	}
	if facts.restart && status.State.Running != nil {
		status.LastTerminationState = terminated(exitLost, status.State.Running.StartedAt, facts.now, status.ContainerID)
		status.State.Running = nil
		status.RestartCount++
	}
	if status.State.Running == nil {
		status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: facts.now}}
	}
	status.Ready, status.Started = true, ptr.To(true)
	return status
}

func newContainerStatus(pod *corev1.Pod, container corev1.Container) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: container.Name, Image: container.Image, ImageID: imageID(container.Image),
		ContainerID: "simulated://" + digest(string(pod.UID)+"/"+container.Name),
	}
}

// imageID has the form that virt-controller reads a container disk's digest
// from; a migration waits for ever where it is missing.
func imageID(image string) string {
	if strings.Contains(image, "@sha256:") {
		return image
	}
	repository := image
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		repository = image[:colon]
	}
	return repository + "@sha256:" + digest(image)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// fillEnded: all containers have terminated, so the phase is final.
func fillEnded(pod *corev1.Pod, status *corev1.PodStatus, how outcome, now metav1.Time) {
	status.Phase = corev1.PodSucceeded
	if how.code != 0 {
		status.Phase = corev1.PodFailed
	}
	if how.reason != "" || how.message != "" {
		status.Reason, status.Message = how.reason, how.message
	}
	if status.StartTime == nil {
		status.StartTime = ptr.To(now)
		if how.reason != "" {
			// Refused before anything was started: kubelet reports no containers.
			return
		}
	}
	status.InitContainerStatuses = allTerminated(pod, pod.Spec.InitContainers, status.InitContainerStatuses, how.code, now)
	status.ContainerStatuses = allTerminated(pod, pod.Spec.Containers, status.ContainerStatuses, how.code, now)
	reason := "PodCompleted"
	if how.code != 0 {
		reason = "PodFailed"
	}
	setPodCondition(status, corev1.PodReadyToStartContainers, corev1.ConditionFalse, "", "", now)
	setPodCondition(status, corev1.ContainersReady, corev1.ConditionFalse, reason, "", now)
	setPodCondition(status, corev1.PodReady, corev1.ConditionFalse, reason, "", now)
}

func allTerminated(pod *corev1.Pod, containers []corev1.Container, old []corev1.ContainerStatus, code int32, now metav1.Time) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for _, container := range containers {
		status := newContainerStatus(pod, container)
		if before := statusOf(old, container.Name); before != nil {
			status = *before.DeepCopy()
		}
		if status.State.Terminated == nil {
			started := now
			if status.State.Running != nil {
				started = status.State.Running.StartedAt
			}
			status.State = terminated(code, started, now, status.ContainerID)
		}
		status.Ready, status.Started = false, ptr.To(false)
		statuses = append(statuses, status)
	}
	return statuses
}

func terminated(code int32, started, finished metav1.Time, id string) corev1.ContainerState {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, StartedAt: started, FinishedAt: finished, ContainerID: id,
	}}
}

func statusOf(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}

func containerNames(pod *corev1.Pod) []string {
	var names []string
	for _, container := range pod.Spec.Containers {
		names = append(names, container.Name)
	}
	return names
}

func setPodCondition(status *corev1.PodStatus, kind corev1.PodConditionType, value corev1.ConditionStatus, reason, message string, now metav1.Time) {
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if condition.Type != kind {
			continue
		}
		if condition.Status != value {
			condition.LastTransitionTime = now
		}
		condition.Status, condition.Reason, condition.Message = value, reason, message
		return
	}
	status.Conditions = append(status.Conditions, corev1.PodCondition{
		Type: kind, Status: value, Reason: reason, Message: message, LastTransitionTime: now,
	})
}
