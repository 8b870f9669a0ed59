package simulator_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
)

func TestVMStartsAndStopsCleanly(t *testing.T) {
	s := newScene(t, 1)
	vmi := s.startVM("vm", grace(45))
	pod := s.launcher(vmi)
	if *pod.Spec.TerminationGracePeriodSeconds != *vmi.Spec.TerminationGracePeriodSeconds+30 {
		t.Errorf("the launcher's grace is %d", *pod.Spec.TerminationGracePeriodSeconds)
	}
	if got := vmiCondition(vmi, virtv1.VirtualMachineInstanceIsMigratable); got != corev1.ConditionTrue {
		t.Errorf("LiveMigratable is %q", got)
	}
	if vmi.Status.Interfaces[0].IP != pod.Status.PodIP {
		t.Errorf("the guest has %q, its pod %q", vmi.Status.Interfaces[0].IP, pod.Status.PodIP)
	}
	phase := s.finalPhase("vm", func() { s.action("vm", "stop", struct{}{}) })
	if phase != virtv1.Succeeded {
		t.Errorf("a clean shutdown ended %s", phase)
	}
	s.vmiGone("vm")
	s.podGone(pod)
}

func TestGuestThatIsSlowIsWaitedFor(t *testing.T) {
	s := newScene(t, 1)
	s.startVM("vm", behaving(map[string]string{"sim.drydock.dev/shutdown-seconds": "3"}), grace(60))
	begin := time.Now()
	if phase := s.finalPhase("vm", func() { s.action("vm", "stop", struct{}{}) }); phase != virtv1.Succeeded {
		t.Errorf("a slow shutdown ended %s", phase)
	}
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("took only %s", took)
	}
}

func TestGuestThatIsDeafIsKilledAfterItsGrace(t *testing.T) {
	s := newScene(t, 1)
	s.startVM("vm", behaving(map[string]string{"sim.drydock.dev/shutdown-seconds": "never"}), grace(3))
	begin := time.Now()
	if phase := s.finalPhase("vm", func() { s.action("vm", "stop", struct{}{}) }); phase != virtv1.Failed {
		t.Errorf("a killed guest ended %s", phase)
	}
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("took only %s", took)
	}
	s.vmiGone("vm")
}

func TestDeafGuestHearsAnAnnotationSetOnTheLiveVMI(t *testing.T) {
	s := newScene(t, 1)
	s.startVM("vm", behaving(map[string]string{"sim.drydock.dev/shutdown-seconds": "never"}), grace(600))
	phase := s.finalPhase("vm", func() {
		s.action("vm", "stop", struct{}{})
		s.annotateVMI("vm", map[string]any{"sim.drydock.dev/shutdown-seconds": "0"})
	})
	if phase != virtv1.Succeeded {
		t.Errorf("ended %s", phase)
	}
}

func TestRerunOnFailureStaysOffWhenItsLauncherIsDeleted(t *testing.T) {
	s := newScene(t, 1)
	vmi := s.startVM("vm")
	pod := s.launcher(vmi)
	phase := s.finalPhase("vm", func() {
		s.must(s.kube.CoreV1().Pods(s.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	})
	if phase != virtv1.Succeeded {
		t.Errorf("a deleted launcher made the VMI %s", phase)
	}
	s.podGone(pod)
	s.vmStatus("vm", virtv1.VirtualMachineStatusStopped)
}

func TestForceDeletedLauncherFailsTheVMI(t *testing.T) {
	s := newScene(t, 1)
	vmi := s.startVM("vm", strategy(virtv1.RunStrategyOnce))
	now := int64(0)
	phase := s.finalPhase("vm", func() {
		s.must(s.kube.CoreV1().Pods(s.namespace).Delete(t.Context(), s.launcher(vmi).Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	})
	if phase != virtv1.Failed {
		t.Errorf("ended %s", phase)
	}
}

func TestGuestPowersItselfOff(t *testing.T) {
	s := newScene(t, 1)
	s.startVM("vm")
	phase := s.finalPhase("vm", func() { s.annotateVMI("vm", map[string]any{"sim.drydock.dev/guest": "power-off"}) })
	if phase != virtv1.Succeeded {
		t.Errorf("ended %s", phase)
	}
	s.vmStatus("vm", virtv1.VirtualMachineStatusStopped)
}

func TestRerunOnFailureStartsAgainAfterACrash(t *testing.T) {
	s := newScene(t, 1)
	before := s.startVM("vm")
	phase := s.finalPhase("vm", func() { s.annotateVMI("vm", map[string]any{"sim.drydock.dev/guest": "crash"}) })
	if phase != virtv1.Failed {
		t.Errorf("ended %s", phase)
	}
	s.vmiIs("vm", "runs anew", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.UID != before.UID && runsReady(vmi) })
}

func TestRestartMakesANewVMI(t *testing.T) {
	s := newScene(t, 1)
	before := s.startVM("vm", strategy(virtv1.RunStrategyAlways))
	s.action("vm", "restart", struct{}{})
	s.vmiIs("vm", "runs anew", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.UID != before.UID && runsReady(vmi) })
}

func TestBootTakesItsTime(t *testing.T) {
	s := newScene(t, 1)
	s.vm("vm", behaving(map[string]string{"sim.drydock.dev/boot-seconds": "never"}))
	s.vmiIs("vm", "is scheduled", func(vmi *virtv1.VirtualMachineInstance) bool { return vmi.Status.Phase == virtv1.Scheduled })
	s.annotateVMI("vm", map[string]any{"sim.drydock.dev/boot-seconds": "0"})
	s.vmiIs("vm", "runs", runsReady)
}

func TestPausedGuestIsNotReady(t *testing.T) {
	s := newScene(t, 1)
	s.vm("vm", behaving(map[string]string{"sim.drydock.dev/paused": "true"}))
	s.vmiIs("vm", "is paused and not ready", func(vmi *virtv1.VirtualMachineInstance) bool {
		return vmiCondition(vmi, virtv1.VirtualMachineInstancePaused) == corev1.ConditionTrue &&
			vmiCondition(vmi, virtv1.VirtualMachineInstanceReady) == corev1.ConditionFalse
	})
	s.annotateVMI("vm", map[string]any{"sim.drydock.dev/paused": nil})
	s.vmiIs("vm", "runs on", runsReady)
}

func TestBadAnnotationIsReported(t *testing.T) {
	s := newScene(t, 1)
	s.startVM("vm", behaving(map[string]string{"sim.drydock.dev/migration-seconds": "soon"}))
	s.eventually("an event explains the value", func(ctx context.Context) (string, bool) {
		events, err := s.kube.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=SimulatorAnnotation"})
		if err != nil || len(events.Items) == 0 {
			return "nothing", false
		}
		return events.Items[0].Message, true
	})
}

func (s *scene) podGone(pod *corev1.Pod) {
	s.t.Helper()
	s.eventually("pod "+pod.Name+" is gone", func(ctx context.Context) (string, bool) {
		now, err := s.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return string(now.Status.Phase), apierrors.IsNotFound(err) || (err == nil && now.UID != pod.UID)
	})
}

func (s *scene) vmStatus(name string, wanted virtv1.VirtualMachinePrintableStatus) {
	s.t.Helper()
	s.eventually("VM "+name+" is "+string(wanted), func(ctx context.Context) (string, bool) {
		vm, err := s.virt.KubevirtV1().VirtualMachines(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error(), false
		}
		return string(vm.Status.PrintableStatus), vm.Status.PrintableStatus == wanted
	})
}
