package longhorn

import (
	"slices"
	"testing"

	longhornv1 "github.com/longhorn/longhorn-manager/k8s/pkg/apis/longhorn/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// used is a volume behind the claim ns/data, with the given pods.
func used(workloads ...longhornv1.WorkloadStatus) *longhornv1.Volume {
	v := &longhornv1.Volume{}
	v.Status.State, v.Status.Robustness, v.Status.CurrentNodeID = longhornv1.VolumeStateAttached, longhornv1.VolumeRobustnessHealthy, "w1"
	v.Status.KubernetesStatus = longhornv1.KubernetesStatus{
		PVName: "pv", PVStatus: "Bound", Namespace: "ns", PVCName: "data", WorkloadsStatus: workloads,
	}
	return v
}

func pod(name, phase, kind, owner string) longhornv1.WorkloadStatus {
	return longhornv1.WorkloadStatus{PodName: name, PodStatus: phase, WorkloadType: kind, WorkloadName: owner}
}

// What Longhorn keeps as history, and what has ended, uses nothing.
func TestWhoUsesAVolume(t *testing.T) {
	for name, test := range map[string]struct {
		volume *longhornv1.Volume
		want   []plan.VolumeUser
	}{
		"nobody":                      {volume: used()},
		"a running pod":               {volume: used(pod("p", "Running", "", "")), want: []plan.VolumeUser{{Kind: "Pod", Namespace: "ns", Name: "p"}}},
		"a pod that is being started": {volume: used(pod("p", "Pending", "", "")), want: []plan.VolumeUser{{Kind: "Pod", Namespace: "ns", Name: "p"}}},
		"a pod that nobody hears of":  {volume: used(pod("p", "Unknown", "", "")), want: []plan.VolumeUser{{Kind: "Pod", Namespace: "ns", Name: "p"}}},
		"a VM":                        {volume: used(pod("virt-launcher-a-x", "Running", "VirtualMachineInstance", "a")), want: []plan.VolumeUser{{Kind: "VirtualMachineInstance", Namespace: "ns", Name: "a"}}},
		"a Job that has succeeded":    {volume: used(pod("p", "Succeeded", "Job", "backup"))},
		"a Job that has failed":       {volume: used(pod("p", "Failed", "Job", "backup"))},
		"a Job's second attempt":      {volume: used(pod("p1", "Failed", "Job", "backup"), pod("p2", "Running", "Job", "backup")), want: []plan.VolumeUser{{Kind: "Job", Namespace: "ns", Name: "backup"}}},
		"a VM that has moved":         {volume: used(pod("virt-launcher-a-x", "Succeeded", "VirtualMachineInstance", "a"), pod("virt-launcher-a-y", "Running", "VirtualMachineInstance", "a")), want: []plan.VolumeUser{{Kind: "VirtualMachineInstance", Namespace: "ns", Name: "a"}}},
		"a pod that was deleted":      {volume: history(func(s *longhornv1.KubernetesStatus) { s.LastPodRefAt = "t" })},
	} {
		if got := usersOf(test.volume); !slices.Equal(got, test.want) {
			t.Errorf("%s: the users are %v, want %v", name, got, test.want)
		}
	}
}

// history is a volume in use after a change of what Longhorn knows of its user.
func history(change func(*longhornv1.KubernetesStatus)) *longhornv1.Volume {
	v := used(pod("p", "Running", "", ""))
	change(&v.Status.KubernetesStatus)
	return v
}

// A claim that was deleted leaves its name with the volume that it was for.
func TestTheClaimOfAVolume(t *testing.T) {
	for name, test := range map[string]struct {
		volume *longhornv1.Volume
		want   types.NamespacedName
		index  []string
	}{
		"bound":       {volume: used(), want: types.NamespacedName{Namespace: "ns", Name: "data"}, index: []string{"ns/data"}},
		"never bound": {volume: &longhornv1.Volume{}},
		"the claim is gone": {volume: history(func(s *longhornv1.KubernetesStatus) {
			s.PVStatus, s.LastPVCRefAt, s.LastPodRefAt = "Released", "t", "t"
		})},
	} {
		if got := claimOf(test.volume); got != test.want {
			t.Errorf("%s: the claim is %v, want %v", name, got, test.want)
		}
		if got, err := indexVolumeByClaim(test.volume); err != nil || !slices.Equal(got, test.index) {
			t.Errorf("%s: found by %v, want %v, %v", name, got, test.index, err)
		}
	}
}

// Longhorn writes a volume all the time: only what a plan rests on is worth a pass.
func TestWhichChangesOfAVolumeCount(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*longhornv1.Volume)
		want   bool
	}{
		"nothing":         {change: func(*longhornv1.Volume) {}},
		"its size":        {change: func(v *longhornv1.Volume) { v.Status.ActualSize = 7 }},
		"its owner":       {change: func(v *longhornv1.Volume) { v.Status.OwnerID = "w2" }},
		"its conditions":  {change: func(v *longhornv1.Volume) { v.Status.Conditions = []longhornv1.Condition{{Type: "Scheduled"}} }},
		"a backup":        {change: func(v *longhornv1.Volume) { v.Status.LastBackup = "b" }},
		"a pod runs now":  {change: func(v *longhornv1.Volume) { v.Status.KubernetesStatus.WorkloadsStatus[0].PodStatus = "Running" }},
		"a pod has ended": {change: func(v *longhornv1.Volume) { v.Status.KubernetesStatus.WorkloadsStatus[0].PodStatus = "Succeeded" }, want: true},
		"a new user": {change: func(v *longhornv1.Volume) {
			v.Status.KubernetesStatus.WorkloadsStatus = append(v.Status.KubernetesStatus.WorkloadsStatus, pod("q", "Pending", "ReplicaSet", "web"))
		}, want: true},
		"no user any more":  {change: func(v *longhornv1.Volume) { v.Status.KubernetesStatus.LastPodRefAt = "t" }, want: true},
		"the claim is gone": {change: func(v *longhornv1.Volume) { v.Status.KubernetesStatus.LastPVCRefAt = "t" }, want: true},
		"another claim":     {change: func(v *longhornv1.Volume) { v.Status.KubernetesStatus.PVCName = "more" }, want: true},
		"detached":          {change: func(v *longhornv1.Volume) { v.Status.State = longhornv1.VolumeStateDetached }, want: true},
		"degraded":          {change: func(v *longhornv1.Volume) { v.Status.Robustness = longhornv1.VolumeRobustnessDegraded }, want: true},
		"another node":      {change: func(v *longhornv1.Volume) { v.Status.CurrentNodeID = "w2" }, want: true},
	} {
		before := used(pod("p", "Pending", "", ""))
		now := before.DeepCopy()
		test.change(now)
		if got := VolumeChanged(before, now); got != test.want {
			t.Errorf("%s: changed is %t, want %t", name, got, test.want)
		}
	}
	old := &longhornv1.Replica{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	if ReplicaChanged(old, old.DeepCopy()) || !ReplicaChanged(old, &longhornv1.Replica{ObjectMeta: metav1.ObjectMeta{Generation: 2}}) {
		t.Error("a replica's change is not told by its generation")
	}
}
