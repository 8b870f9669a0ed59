package simulator

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// A host as the other concerns see it: an immutable snapshot.
type host struct {
	name     string
	uid      types.UID
	ip       string
	on       bool
	cpuModel string
}

// Registry knows the adopted hosts.
type registry struct {
	memory *memory

	mu    sync.RWMutex
	hosts map[string]host
}

func newRegistry(memory *memory) *registry {
	return &registry{memory: memory, hosts: map[string]host{}}
}

func (r *registry) get(name string) (host, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	h, known := r.hosts[name]
	return h, known
}

// powered returns a host only if it is able to do something.
func (r *registry) powered(name string) (host, bool) {
	h, known := r.get(name)
	return h, known && h.on
}

func (r *registry) put(h host) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hosts[h.name] = h
}

func (r *registry) drop(name string) (host, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, known := r.hosts[name]
	delete(r.hosts, name)
	return h, known
}

// lost tells whether a pod's processes died in a power loss of the host. Nobody can tell
// before the power is back, be it that the registry does not know of the loss yet.
func (r *registry) lost(h host, pod types.UID) bool {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	known, exists := r.memory.content.Hosts[h.uid]
	return exists && !known.Off && known.Lost[pod]
}

// recovered takes a pod off the list of lost ones, when its containers have
// been started anew or its object is gone.
func (r *registry) recovered(h host, pod types.UID) error {
	if !r.lost(h, pod) {
		return nil
	}
	return r.memory.change(func(content *memoryContent) {
		delete(content.Hosts[h.uid].Lost, pod)
	})
}
