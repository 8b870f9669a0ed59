package simulator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
)

func TestEvictionMovesAVM(t *testing.T) {
	s := newScene(t, 2)
	before := s.startVM("vm")
	source := s.launcher(before)
	s.evictionIsAccepted(source)

	after := s.vmiIs("vm", "has moved and is ready", movedFrom(before))
	migration := after.Status.MigrationState
	if after.UID != before.UID || after.Status.EvacuationNodeName != "" {
		t.Errorf("UID %s → %s, evacuating %q", before.UID, after.UID, after.Status.EvacuationNodeName)
	}
	if migration.TargetNode != after.Status.NodeName || after.Labels[virtv1.NodeNameLabel] != after.Status.NodeName || !migration.TargetNodeDomainDetected {
		t.Errorf("on %s, labels %v, migration %+v", after.Status.NodeName, after.Labels, migration)
	}
	s.migrationIs("vm", "succeeds", virtv1.MigrationSucceeded)
	s.podIs(source.Name, "has succeeded and stays", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	s.podIs(migration.TargetPod, "is the ready one", func(pod *corev1.Pod) bool { return podReady(pod) == corev1.ConditionTrue })
	s.vmiIs("vm", "has lost the target label", func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmi.Labels[virtv1.MigrationTargetNodeNameLabel] == "" && vmi.Status.Interfaces[0].IP == s.launcher(vmi).Status.PodIP
	})

	if phase := s.finalPhase("vm", func() { s.action("vm", "stop", struct{}{}) }); phase != virtv1.Succeeded {
		t.Errorf("after a migration the guest ended %s", phase)
	}
	s.podGone(source)
}

func TestMovedVMCanMoveBack(t *testing.T) {
	s := newScene(t, 2)
	first := s.startVM("vm")
	s.action("vm", "migrate", struct{}{})
	second := s.vmiIs("vm", "has moved", movedFrom(first))
	s.vmiIs("vm", "is at rest", func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmi.Labels[virtv1.MigrationTargetNodeNameLabel] == ""
	})
	// virt-api refuses a second migration beside an unfinished one.
	s.migrationIs("vm", "has succeeded", virtv1.MigrationSucceeded)
	s.action("vm", "migrate", struct{}{})
	s.vmiIs("vm", "is back", func(vmi *virtv1.VirtualMachineInstance) bool {
		return movedFrom(second)(vmi) && vmi.Status.NodeName == first.Status.NodeName
	})
}

func TestPausedVMStaysPausedWhenItMoves(t *testing.T) {
	s := newScene(t, 2)
	s.vm("vm", behaving(map[string]string{"sim.drydock.dev/paused": "true"}))
	paused := func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmiCondition(vmi, virtv1.VirtualMachineInstancePaused) == corev1.ConditionTrue
	}
	before := s.vmiIs("vm", "is paused", paused)
	s.action("vm", "migrate", struct{}{})
	s.vmiIs("vm", "is paused elsewhere", func(vmi *virtv1.VirtualMachineInstance) bool {
		return paused(vmi) && vmi.Status.NodeName != before.Status.NodeName && vmi.Status.MigrationState.Completed
	})
}

func TestMigrationFailsAsOftenAsAsked(t *testing.T) {
	s := newScene(t, 2)
	before := s.startVM("vm", behaving(map[string]string{
		"sim.drydock.dev/migration-failures": "1", "sim.drydock.dev/migration-failure-reason": "the cable is loose",
	}))
	s.evictionIsAccepted(s.launcher(before))
	failed := s.migrationIs("vm", "fails", virtv1.MigrationFailed)
	s.vmiIs("vm", "tells the reason", func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmi.Status.MigrationState != nil && vmi.Status.MigrationState.FailureReason == "the cable is loose" && vmi.Status.NodeName == before.Status.NodeName
	})
	s.eventually("the failed target's launcher ends", func(ctx context.Context) (string, bool) {
		for _, pod := range s.launchers(before) {
			if pod.Labels[virtv1.MigrationJobLabel] == string(failed.UID) {
				return string(pod.Status.Phase), pod.Status.Phase == corev1.PodSucceeded
			}
		}
		return "no such pod", true
	})
	s.vmiIs("vm", "moves at the second attempt", movedFrom(before))
}

func TestMigrationIsAbortedByDeletingIt(t *testing.T) {
	s := newScene(t, 2)
	before := s.startVM("vm", behaving(map[string]string{"sim.drydock.dev/migration-seconds": "never"}))
	s.action("vm", "migrate", struct{}{})
	running := s.migrationIs("vm", "runs", virtv1.MigrationRunning)
	s.must(s.virt.KubevirtV1().VirtualMachineInstanceMigrations(s.namespace).Delete(t.Context(), running.Name, metav1.DeleteOptions{}))
	s.vmiIs("vm", "has aborted", func(vmi *virtv1.VirtualMachineInstance) bool {
		migration := vmi.Status.MigrationState
		return migration.AbortStatus == virtv1.MigrationAbortSucceeded && migration.Failed && migration.EndTimestamp != nil
	})
	s.eventually("the migration is gone", func(context.Context) (string, bool) {
		left := s.migrations("vm")
		return fmt.Sprint(len(left)), len(left) == 0
	})
	s.vmiIs("vm", "runs where it was", func(vmi *virtv1.VirtualMachineInstance) bool {
		return runsReady(vmi) && vmi.Status.NodeName == before.Status.NodeName && len(s.alive(vmi)) == 1
	})
}

func TestMigrationWithoutATargetWaits(t *testing.T) {
	s := newScene(t, 2)
	before := s.startVM("vm")
	for _, host := range s.hosts {
		if host != before.Status.NodeName {
			s.cordon(host)
		}
	}
	s.evictionIsAccepted(s.launcher(before))
	s.migrationIs("vm", "is scheduling", virtv1.MigrationScheduling)
	s.eventually("the target pod is unschedulable", func(context.Context) (string, bool) {
		unschedulable := slices.ContainsFunc(s.launchers(before), func(pod corev1.Pod) bool {
			return pod.Spec.NodeName == "" && slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
				return condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable
			})
		})
		return "", unschedulable
	})
	s.vmiIs("vm", "stays", func(vmi *virtv1.VirtualMachineInstance) bool {
		return runsReady(vmi) && vmi.Status.NodeName == before.Status.NodeName && vmi.Status.EvacuationNodeName == before.Status.NodeName
	})
}

func TestMigrationFailsWhenItsTargetLosesPower(t *testing.T) {
	s := newScene(t, 2)
	before := s.startVM("vm", behaving(map[string]string{"sim.drydock.dev/migration-seconds": "never"}))
	s.action("vm", "migrate", struct{}{})
	s.migrationIs("vm", "runs", virtv1.MigrationRunning)
	for _, host := range s.hosts {
		if host != before.Status.NodeName {
			s.power(host, "off")
		}
	}
	s.migrationIs("vm", "fails", virtv1.MigrationFailed)
	s.vmiIs("vm", "runs on", func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmi.Status.Phase == virtv1.Running && vmi.Status.NodeName == before.Status.NodeName
	})
}

func TestNotMigratableVMRefusesEviction(t *testing.T) {
	s := newScene(t, 2)
	s.vm("vm", behaving(map[string]string{"sim.drydock.dev/not-live-migratable": "HostDeviceNotLiveMigratable: VMI uses a PCI host devices"}))
	vmi := s.vmiIs("vm", "runs and is not migratable", func(vmi *virtv1.VirtualMachineInstance) bool {
		return runsReady(vmi) && vmiCondition(vmi, virtv1.VirtualMachineInstanceIsMigratable) == corev1.ConditionFalse
	})
	if err := s.evict(s.launcher(vmi)); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the eviction was answered %v", err)
	}
	if len(s.migrations("vm")) != 0 {
		t.Error("a migration was created")
	}
}

// The limit is virt-controller's. It holds only if migrations take their time
// and end when they should, which is the simulator's part.
func TestTwoMigrationsLeaveAHostAtATime(t *testing.T) {
	s := newScene(t, 1)
	var names []string
	for i := range 4 {
		name := fmt.Sprintf("vm-%d", i)
		names = append(names, name)
		s.vm(name, behaving(map[string]string{"sim.drydock.dev/migration-seconds": "2"}))
	}
	var moving []*virtv1.VirtualMachineInstance
	for _, name := range names {
		moving = append(moving, s.vmiIs(name, "runs", runsReady))
	}
	s.addHost(s.namespace + ".target")
	s.hostIsReady(s.namespace + ".target")
	for _, vmi := range moving {
		s.evictionIsAccepted(s.launcher(vmi))
	}
	most := 0
	s.eventually("all have moved", func(ctx context.Context) (string, bool) {
		list, err := s.virt.KubevirtV1().VirtualMachineInstances(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error(), false
		}
		running, moved := 0, 0
		for i := range list.Items {
			migration := list.Items[i].Status.MigrationState
			if migration != nil && migration.StartTimestamp != nil && migration.EndTimestamp == nil {
				running++
			}
			if movedFrom(moving[0])(&list.Items[i]) {
				moved++
			}
		}
		most = max(most, running)
		return fmt.Sprintf("%d moved", moved), moved == len(names)
	})
	if most > 2 {
		t.Errorf("%d migrations ran at once", most)
	}
}

func movedFrom(before *virtv1.VirtualMachineInstance) func(*virtv1.VirtualMachineInstance) bool {
	return func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmi.Status.NodeName != before.Status.NodeName && runsReady(vmi) &&
			vmi.Status.MigrationState != nil && vmi.Status.MigrationState.Completed && !vmi.Status.MigrationState.Failed
	}
}

// evictionIsAccepted: KubeVirt says 429 and marks the VMI.
func (s *scene) evictionIsAccepted(pod *corev1.Pod) {
	s.t.Helper()
	if err := s.evict(pod); !apierrors.IsTooManyRequests(err) {
		s.t.Fatalf("the eviction of %s was answered %v", pod.Name, err)
	}
}

func (s *scene) migrationIs(vmi, what string, phase virtv1.VirtualMachineInstanceMigrationPhase) *virtv1.VirtualMachineInstanceMigration {
	s.t.Helper()
	var found *virtv1.VirtualMachineInstanceMigration
	s.eventually("a migration of "+vmi+" "+what, func(context.Context) (string, bool) {
		var seen []string
		for _, migration := range s.migrations(vmi) {
			seen = append(seen, string(migration.Status.Phase))
			if migration.Status.Phase == phase {
				found = &migration
				return "", true
			}
		}
		return fmt.Sprint(seen), false
	})
	return found
}

func (s *scene) podIs(name, what string, check func(*corev1.Pod) bool) *corev1.Pod {
	s.t.Helper()
	var pod *corev1.Pod
	s.eventually("pod "+name+" "+what, func(ctx context.Context) (string, bool) {
		var err error
		pod, err = s.kube.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error(), false
		}
		return fmt.Sprintf("%+v", pod.Status), check(pod)
	})
	return pod
}

func podReady(pod *corev1.Pod) corev1.ConditionStatus {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status
		}
	}
	return ""
}

func (s *scene) alive(vmi *virtv1.VirtualMachineInstance) []corev1.Pod {
	s.t.Helper()
	return slices.DeleteFunc(s.launchers(vmi), func(pod corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
}
