package longhorn

import (
	"slices"

	longhornv1 "github.com/longhorn/longhorn-manager/k8s/pkg/apis/longhorn/v1beta2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// claimOf returns the claim that a volume is bound to, none where LastPVCRefAt is set:
// the claim is gone, and Longhorn keeps its name as history. Another volume may be behind
// a claim of that name by now.
func claimOf(volume *longhornv1.Volume) types.NamespacedName {
	status := &volume.Status.KubernetesStatus
	if status.LastPVCRefAt != "" || status.PVCName == "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: status.Namespace, Name: status.PVCName}
}

func indexVolumeByClaim(volume *longhornv1.Volume) ([]string, error) {
	if claim := claimOf(volume); claim.Name != "" {
		return []string{claim.String()}, nil
	}
	return nil, nil
}

// usersOf returns the workloads whose pods use a volume. Where LastPodRefAt is set no pod
// refers to it any more, and those that are listed are history. Longhorn lists pods of
// every phase: one that has ended, as a Job leaves it behind, reads and writes nothing.
func usersOf(volume *longhornv1.Volume) []plan.VolumeUser {
	status := &volume.Status.KubernetesStatus
	if status.LastPodRefAt != "" {
		return nil
	}
	var users []plan.VolumeUser
	for _, workload := range status.WorkloadsStatus {
		if phase := corev1.PodPhase(workload.PodStatus); phase == corev1.PodSucceeded || phase == corev1.PodFailed {
			continue
		}
		user := plan.VolumeUser{Kind: workload.WorkloadType, Namespace: status.Namespace, Name: workload.WorkloadName}
		if user.Kind == "" {
			user.Kind, user.Name = "Pod", workload.PodName
		}
		users = append(users, user)
	}
	return users
}

// VolumeChanged reports whether anything about a volume has changed that a plan rests on.
// Longhorn writes its status all the time, the size of its data for one.
func VolumeChanged(before, now any) bool {
	old, okOld := before.(*longhornv1.Volume)
	current, okNow := now.(*longhornv1.Volume)
	if !okOld || !okNow {
		return true
	}
	was, is := &old.Status, &current.Status
	return was.State != is.State || was.Robustness != is.Robustness || was.CurrentNodeID != is.CurrentNodeID ||
		claimOf(old) != claimOf(current) || !slices.Equal(usersOf(old), usersOf(current))
}

// ReplicaChanged is the same for a replica. Its health is in its spec, so that status
// updates are told from it by the generation.
func ReplicaChanged(before, now any) bool {
	old, okOld := before.(metav1.Object)
	current, okNow := now.(metav1.Object)
	return !okOld || !okNow || old.GetGeneration() != current.GetGeneration()
}
