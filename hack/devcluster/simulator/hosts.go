package simulator

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Hosts adopts Node objects that are marked as simulated, and plays the parts
// of a host that concern the Node itself.
type hosts struct {
	client     kubernetes.Interface
	nodes      cache.Indexer
	pods       cache.Indexer
	registry   *registry
	memory     *memory
	addresses  *addresses
	complaints *complaints
	log        *slog.Logger

	// switched is told when a host appeared, lost or got power, or vanished.
	switched func(name string)

	nodeLoop *loop
	beatLoop *loop
	beats    beats
}

func (h *hosts) reconcile(ctx context.Context, name string) (time.Duration, error) {
	object, exists, err := h.nodes.GetByKey(name)
	if err != nil {
		return 0, fmt.Errorf("look up node %q: %w", name, err)
	}
	if !exists {
		return 0, h.dropHost(name)
	}
	node := object.(*corev1.Node)
	behaviour := settings{annotations: node.Annotations}
	if behaviour.oneOf(annotationHost, wordTrue, wordFalse) != wordTrue || node.DeletionTimestamp != nil {
		h.complaints.about(node, node.UID, node.Name, behaviour.bad)
		return 0, h.dropHost(name)
	}
	current, err := h.adopt(node, &behaviour)
	if err != nil {
		return 0, err
	}
	if current.on {
		err = h.register(ctx, node, current, &behaviour)
	}
	h.complaints.about(node, node.UID, node.Name, behaviour.bad)
	if err != nil {
		return 0, err
	}
	if current.on {
		h.beatLoop.queue.Add(name)
	}
	return 0, nil
}

// adopt brings the registry in line with the Node: a host that is new, that
// lost power, or that got it back.
func (h *hosts) adopt(node *corev1.Node, behaviour *settings) (host, error) {
	before, known := h.registry.get(node.Name)
	if known && before.uid != node.UID {
		if err := h.dropHost(node.Name); err != nil {
			return host{}, err
		}
		known = false
	}
	current := host{
		name: node.Name, uid: node.UID,
		ip:       h.addresses.host(node.Name, internalIP(node)),
		on:       behaviour.oneOf(annotationPower, powerOn, powerOff) != powerOff,
		cpuModel: cpuModelOf(node.Annotations),
	}
	if known && before == current {
		return current, nil
	}
	if err := h.remember(current); err != nil {
		return host{}, err
	}
	h.registry.put(current)
	if !known || before.on != current.on {
		h.log.Info("host", "name", current.name, "power", current.on)
		h.switched(current.name)
	}
	return current, nil
}

// remember records which pods died. Two events kill everything on a host: a
// power loss, and a new machine that takes over the name (a Node with another
// UID), where kubelet finds none of the containers the objects speak of.
func (h *hosts) remember(current host) error {
	started, err := h.startedPods(current.name)
	if err != nil {
		return err
	}
	return h.memory.change(func(content *memoryContent) {
		past, known := content.Hosts[current.uid]
		if !known {
			past = &hostMemory{Name: current.name}
			content.Hosts[current.uid] = past
		}
		lostPower := !current.on && !past.Off
		past.Off = !current.on
		if known && !lostPower {
			return
		}
		if past.Lost == nil {
			past.Lost = map[types.UID]bool{}
		}
		for _, uid := range started {
			past.Lost[uid] = true
		}
	})
}

func (h *hosts) startedPods(name string) ([]types.UID, error) {
	objects, err := h.pods.ByIndex(indexPodsByNode, name)
	if err != nil {
		return nil, fmt.Errorf("list the pods of host %q: %w", name, err)
	}
	var started []types.UID
	for _, object := range objects {
		pod := object.(*corev1.Pod)
		if pod.Status.StartTime != nil && !podIsTerminal(pod) {
			started = append(started, pod.UID)
		}
	}
	return started, nil
}

func (h *hosts) dropHost(name string) error {
	gone, known := h.registry.drop(name)
	if !known {
		return nil
	}
	h.beats.forget(name)
	h.log.Info("host is gone", "name", name)
	h.switched(name)
	return h.memory.change(func(content *memoryContent) {
		delete(content.Hosts, gone.uid)
	})
}

func internalIP(node *corev1.Node) string {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	return ""
}
