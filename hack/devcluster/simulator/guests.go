package simulator

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A guest is the domain of one VMI: what libvirt and QEMU know, and nothing
// that the API server could tell.
type guest struct {
	vmi  types.UID
	host string    // where it runs
	pod  types.UID // the launcher that holds it

	since time.Time // when it was started; boot-seconds later the VMI is Running

	stopSince time.Time // when the power button was pressed for the first time
	move      *move
}

// A move is a live migration that QEMU is busy with.
type move struct {
	migration types.UID
	since     time.Time
	done      bool // the domain runs on the target
}

// Guests is the registry of domains and of launchers that have exited. The
// handler writes it; kubelet reads it, as it reads a container's state.
type guests struct {
	mu      sync.Mutex
	byVMI   map[types.UID]*guest
	byPod   map[types.UID]types.UID // launcher pod → VMI
	exits   map[types.UID]int32     // launcher pod → exit code
	seen    map[types.UID]bool      // launcher pods that have seen a domain
	keyUIDs map[string]types.UID    // VMI namespace/name → UID last seen
}

func newGuests() *guests {
	return &guests{
		byVMI: map[types.UID]*guest{}, byPod: map[types.UID]types.UID{},
		exits: map[types.UID]int32{}, seen: map[types.UID]bool{}, keyUIDs: map[string]types.UID{},
	}
}

// get returns a copy; put writes it back. One VMI is only ever handled by one
// worker at a time, so nothing is lost in between.
func (g *guests) get(vmi types.UID) *guest {
	g.mu.Lock()
	defer g.mu.Unlock()
	if domain, exists := g.byVMI[vmi]; exists {
		copied := *domain
		return &copied
	}
	return nil
}

func (g *guests) put(domain guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if before, exists := g.byVMI[domain.vmi]; exists && before.pod != domain.pod {
		delete(g.byPod, before.pod)
	}
	g.byVMI[domain.vmi] = &domain
	g.byPod[domain.pod] = domain.vmi
	g.seen[domain.pod] = true
}

// see notes that a launcher has seen a domain which is not its own yet.
func (g *guests) see(pod types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen[pod] = true
}

// waits tells whether a launcher has seen no domain yet.
func (g *guests) waits(pod types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.seen[pod]
}

// off removes a domain that has stopped, for whatever reason.
func (g *guests) off(vmi types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if domain, exists := g.byVMI[vmi]; exists {
		delete(g.byPod, domain.pod)
		delete(g.byVMI, vmi)
	}
}

// killPod removes the domain that a launcher held, when its pod is gone.
func (g *guests) killPod(pod types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.exits, pod)
	delete(g.seen, pod)
	if vmi, holds := g.byPod[pod]; holds {
		delete(g.byPod, pod)
		delete(g.byVMI, vmi)
	}
}

// killHost removes every domain of a host, when its power is gone.
func (g *guests) killHost(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for vmi, domain := range g.byVMI {
		if domain.host == name {
			delete(g.byPod, domain.pod)
			delete(g.byVMI, vmi)
		}
	}
}

func (g *guests) inPod(pod types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, holds := g.byPod[pod]
	return holds
}

// exit says that a launcher's process is gone; true the first time.
func (g *guests) exit(pod types.UID, code int32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.exits[pod]; known {
		return false
	}
	g.exits[pod] = code
	return true
}

func (g *guests) launcherExit(pod types.UID) (int32, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	code, gone := g.exits[pod]
	return code, gone
}

// named ties a VMI's name to its UID and forgets the domain of an earlier VMI
// of that name. An empty UID means that the VMI is gone.
func (g *guests) named(key string, vmi types.UID) {
	g.mu.Lock()
	before := g.keyUIDs[key]
	if vmi == "" {
		delete(g.keyUIDs, key)
	} else {
		g.keyUIDs[key] = vmi
	}
	g.mu.Unlock()
	if before != "" && before != vmi {
		g.off(before)
	}
}
