package simulator_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	virtv1 "kubevirt.io/api/core/v1"
)

func TestPowerLossAndReturn(t *testing.T) {
	s := newScene(t, 1)
	before := s.startVM("vm")
	launcher := s.launcher(before)
	spec := s.podSpec()
	s.createPod("always", nil, spec)
	s.createPod("evicted", nil, spec)
	always, evicted := s.podIs("always", "is ready", isReady), s.podIs("evicted", "is ready", isReady)

	s.power(s.hosts[0], "off")
	s.nodeIs(s.hosts[0], corev1.ConditionUnknown)
	s.vmiIs("vm", "still says Running and is not ready", func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmi.Status.Phase == virtv1.Running && vmi.UID == before.UID && vmiCondition(vmi, virtv1.VirtualMachineInstanceReady) == corev1.ConditionFalse
	})
	s.must(s.kube.CoreV1().Pods(s.namespace).Delete(t.Context(), "evicted", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)}))

	phase := s.finalPhase("vm", func() {
		s.podIs("evicted", "hangs Terminating", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		s.power(s.hosts[0], "on")
	})
	if phase != virtv1.Failed {
		t.Errorf("the VMI that lost its host ended %s", phase)
	}
	s.hostIsReady(s.hosts[0])
	s.podGone(launcher)
	s.podGone(evicted)
	s.podIs("always", "was started again, under its old address", func(pod *corev1.Pod) bool {
		return isReady(pod) && pod.UID == always.UID && pod.Status.ContainerStatuses[0].RestartCount == 1 && pod.Status.PodIP == always.Status.PodIP
	})
	s.vmiIs("vm", "runs anew", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.UID != before.UID && runsReady(vmi) })
}

func TestForceDeletionFreesAVMOfADeadHost(t *testing.T) {
	s := newScene(t, 2)
	before := s.startVM("vm")
	launcher := s.launcher(before)
	s.power(before.Status.NodeName, "off")
	s.nodeIs(before.Status.NodeName, corev1.ConditionUnknown)
	s.must(s.kube.CoreV1().Pods(s.namespace).Delete(t.Context(), launcher.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	s.vmiIs("vm", "runs on the other host", func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmi.UID != before.UID && runsReady(vmi) && vmi.Status.NodeName != before.Status.NodeName
	})
}

func TestNewNodeOfTheSameNameIsAnotherHost(t *testing.T) {
	s := newScene(t, 1)
	before := s.startVM("vm")
	name := s.hosts[0]
	s.must(s.kube.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	s.hosts = nil
	s.addHost(name)
	s.hostIsReady(name)
	s.vmiIs("vm", "runs anew", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.UID != before.UID && runsReady(vmi) })
}

func (s *scene) nodeIs(name string, ready corev1.ConditionStatus) {
	s.t.Helper()
	s.eventually("host "+name+" has Ready "+string(ready), func(ctx context.Context) (string, bool) {
		node, err := s.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error(), false
		}
		return string(nodeReady(node)), nodeReady(node) == ready
	})
}
