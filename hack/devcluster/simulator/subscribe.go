package simulator

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	virtv1 "kubevirt.io/api/core/v1"
)

// subscribe connects the informers with the queues. This is the one place where
// it is said which change concerns whom.
func (s *simulator) subscribe() error {
	_, nodes := s.nodes.AddEventHandler(handlerFor(s.nodeChanged, s.nodeChanged))
	_, pods := s.pods.AddEventHandler(handlerFor(s.podChanged, s.podGone))
	_, vmis := s.vmis.AddEventHandler(handlerFor(s.vmiChanged, s.vmiGone))
	if err := errors.Join(nodes, pods, vmis); err != nil {
		return fmt.Errorf("subscribe to changes: %w", err)
	}
	return nil
}

// handlerFor unpacks what an informer hands out when it has missed a deletion.
func handlerFor[T any](changed, gone func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { changed(object.(T)) },
		UpdateFunc: func(_, object any) { changed(object.(T)) },
		DeleteFunc: func(object any) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			if last, ok := object.(T); ok {
				gone(last)
			}
		},
	}
}

func (s *simulator) nodeChanged(node *corev1.Node) {
	s.hosts.nodeLoop.queue.Add(node.Name)
}

// hostSwitched is called when a host appeared, changed its power or vanished:
// everything on it has to be looked at again.
func (s *simulator) hostSwitched(name string) {
	if current, exists := s.hosts.registry.get(name); !exists || !current.on {
		s.handler.guests.killHost(name)
		if !exists {
			s.mirrors.forget(name)
		}
	}
	s.mirrors.loop.queue.Add(name)
	s.volumes.hostSwitched(name)
	for _, key := range keysByIndex(s.pods, indexPodsByNode, name) {
		s.kubelet.loop.queue.Add(key)
	}
	for _, key := range keysByIndex(s.vmis, indexVMIsByNode, name) {
		s.handler.loop.queue.Add(key)
	}
}

func keysByIndex(informer cache.SharedIndexInformer, index, value string) []string {
	keys, err := informer.GetIndexer().IndexKeys(index, value)
	if err != nil {
		// Only a missing index can fail, and that is a mistake in this package.
		panic(fmt.Sprintf("index %s: %v", index, err)) //nolint:forbidigo // See above.
	}
	return keys
}

func (s *simulator) podChanged(pod *corev1.Pod) {
	if _, ours := s.hosts.registry.get(pod.Spec.NodeName); !ours {
		return
	}
	s.mirrors.saw(pod)
	if isVirtHandler(pod) {
		s.hosts.nodeLoop.queue.Add(pod.Spec.NodeName)
	}
	s.kubelet.loop.queue.Add(pod.Namespace + "/" + pod.Name)
	s.ownerOf(pod)
}

// podGone: the object is away, be it after an orderly end or by force. Either
// way nothing of the pod runs any more on a simulated host.
func (s *simulator) podGone(pod *corev1.Pod) {
	s.hosts.addresses.release(pod.UID)
	s.handler.guests.killPod(pod.UID)
	if current, ours := s.hosts.registry.get(pod.Spec.NodeName); ours {
		if err := s.hosts.registry.recovered(current, pod.UID); err != nil {
			s.log.Error("a lost pod is not forgotten", "pod", pod.Name, "error", err)
		}
		if isMirror(pod) {
			s.mirrors.loop.queue.Add(pod.Spec.NodeName)
		}
	}
	s.ownerOf(pod)
}

// ownerOf wakes the VMI of a launcher.
func (s *simulator) ownerOf(pod *corev1.Pod) {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == virtv1.VirtualMachineInstanceGroupVersionKind.Kind {
		s.handler.loop.queue.Add(pod.Namespace + "/" + owner.Name)
	}
}

// vmiChanged also wakes the launchers: with a VMI that is final or gone, they
// have nothing to wait for.
func (s *simulator) vmiChanged(vmi *virtv1.VirtualMachineInstance) {
	s.handler.loop.queue.Add(vmi.Namespace + "/" + vmi.Name)
	if vmi.DeletionTimestamp == nil && !vmi.IsFinal() {
		return // its launchers go on
	}
	for _, key := range keysByIndex(s.pods, indexPodsByController, string(vmi.UID)) {
		s.kubelet.loop.queue.Add(key)
	}
}

func (s *simulator) vmiGone(vmi *virtv1.VirtualMachineInstance) {
	if err := s.handler.memory.forgetFailures(vmi.UID); err != nil {
		s.log.Error("failed migrations of a VMI are not forgotten", "vmi", vmi.Name, "error", err)
	}
	s.vmiChanged(vmi)
}
