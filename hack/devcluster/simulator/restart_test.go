package simulator

import (
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	virtv1 "kubevirt.io/api/core/v1"
)

// A simulator whose caches are filled by hand: what it recalls at a start does
// not depend on an API server.
func recalling(t *testing.T, dir string, objects ...runtime.Object) *simulator {
	t.Helper()
	nowhere := &rest.Config{Host: "http://127.0.0.1:1"}
	s, err := newSimulator(Options{Admin: nowhere, Handler: nowhere, StateDir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		switch object := object.(type) {
		case *corev1.Node:
			err = s.nodes.GetIndexer().Add(object)
		case *corev1.Pod:
			err = s.pods.GetIndexer().Add(object)
		case *virtv1.VirtualMachineInstance:
			err = s.vmis.GetIndexer().Add(object)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.recall(); err != nil {
		t.Fatal(err)
	}
	return s
}

func hostNode(uid types.UID, power string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: uid, Annotations: map[string]string{annotationHost: wordTrue, annotationPower: power}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: hostIP(7)}}},
	}
}

func runningLauncher() (*corev1.Pod, *virtv1.VirtualMachineInstance) {
	vmi := &virtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "vm", UID: "vmi"},
		Status:     virtv1.VirtualMachineInstanceStatus{Phase: virtv1.Running, NodeName: "n1"},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "launcher", UID: "pod", Labels: map[string]string{virtv1.AppLabel: launcherAppLabel},
			OwnerReferences: []metav1.OwnerReference{{Kind: virtv1.VirtualMachineInstanceGroupVersionKind.Kind, Name: "vm", UID: "vmi", Controller: ptr.To(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: ptr.To(metav1.Now()), PodIP: podIP(7, 42)},
	}
	return pod, vmi
}

func TestARestartFindsGuestsAndAddresses(t *testing.T) {
	pod, vmi := runningLauncher()
	dir := t.TempDir()
	// The first run knows the host; only the second is a restart.
	recalling(t, dir, hostNode("a", powerOn))
	s := recalling(t, dir, hostNode("a", powerOn), pod, vmi)
	if !s.handler.guests.inPod("pod") || !s.handler.alive(pod) {
		t.Error("the guest is not found")
	}
	if self, on := s.hosts.registry.powered("n1"); !on || self.ip != hostIP(7) {
		t.Errorf("the host is %+v", self)
	}
	if ip, err := s.hosts.addresses.pod("n1", "pod", ""); err != nil || ip != podIP(7, 42) {
		t.Errorf("the pod has %s, %v", ip, err)
	}
	if ip, err := s.hosts.addresses.pod("n1", "another", ""); err != nil || ip == podIP(7, 42) {
		t.Errorf("another pod has %s, %v", ip, err)
	}
}

func TestWhatAPowerLossKilledStaysDeadOverARestart(t *testing.T) {
	pod, vmi := runningLauncher()
	dir := t.TempDir()
	recalling(t, dir, hostNode("a", powerOn))
	recalling(t, dir, hostNode("a", powerOff), pod, vmi)
	s := recalling(t, dir, hostNode("a", powerOn), pod, vmi)
	if s.handler.alive(pod) || !s.handler.dead(pod) {
		t.Error("the launcher came back alive")
	}
}

func TestAnotherMachineOfTheSameNameRunsNothing(t *testing.T) {
	pod, vmi := runningLauncher()
	dir := t.TempDir()
	recalling(t, dir, hostNode("a", powerOn))
	s := recalling(t, dir, hostNode("b", powerOn), pod, vmi)
	if !s.handler.dead(pod) {
		t.Error("the launcher of the earlier machine is alive")
	}
}
