package simulator

import (
	"fmt"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// PodsPerHost is the capacity a host announces. Each host has one /24 for its
// pods, so this has to stay below 254.
const podsPerHost = 250

// Addresses hands out host and pod IPs. Nothing listens on them; they have to
// be unique and stable, because EndpointSlices, VMI interfaces and people
// compare them. After a restart they are read back from the objects' status.
type addresses struct {
	mu    sync.Mutex
	hosts map[string]int                          // host name → index
	used  map[int]string                          // index → host name
	pods  map[string]map[byte]types.UID           // host name → last byte → pod
	owner map[types.UID]struct{ host, ip string } // pod → what it has
}

func newAddresses() *addresses {
	return &addresses{
		hosts: map[string]int{}, used: map[int]string{},
		pods: map[string]map[byte]types.UID{}, owner: map[types.UID]struct{ host, ip string }{},
	}
}

func hostIP(index int) string {
	return fmt.Sprintf("172.31.%d.%d", index/250, index%250+1)
}

func podIP(index int, last byte) string {
	return fmt.Sprintf("10.%d.%d.%d", 128+index/256, index%256, last)
}

func indexOfHostIP(text string) (int, bool) {
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is4() {
		return 0, false
	}
	bytes := address.As4()
	if bytes[0] != 172 || bytes[1] != 31 || bytes[3] == 0 || bytes[3] > 250 {
		return 0, false
	}
	return int(bytes[2])*250 + int(bytes[3]) - 1, true
}

// host returns the IP of a host, the current one if that is ours and free.
func (a *addresses) host(name, current string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if index, known := a.hosts[name]; known {
		return hostIP(index)
	}
	index, ours := indexOfHostIP(current)
	if _, taken := a.used[index]; !ours || taken {
		for index = 0; ; index++ {
			if _, taken := a.used[index]; !taken {
				break
			}
		}
	}
	a.hosts[name], a.used[index] = index, name
	return hostIP(index)
}

// pod returns the IP of a pod on a host, the current one if that is free.
func (a *addresses) pod(host string, uid types.UID, current string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if has, known := a.owner[uid]; known {
		return has.ip, nil
	}
	index, known := a.hosts[host]
	if !known {
		return "", fmt.Errorf("host %q has no address yet", host)
	}
	if a.pods[host] == nil {
		a.pods[host] = map[byte]types.UID{}
	}
	for last := byte(1); last < 255; last++ {
		ip := podIP(index, last)
		_, taken := a.pods[host][last]
		if taken || (current != "" && current != ip) {
			continue
		}
		a.pods[host][last] = uid
		a.owner[uid] = struct{ host, ip string }{host, ip}
		return ip, nil
	}
	if current != "" {
		// It came from somewhere else; it is the pod's all the same.
		return current, nil
	}
	return "", fmt.Errorf("host %q has no pod address left", host)
}

// release gives a pod's IP back when the pod object is gone.
func (a *addresses) release(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	has, known := a.owner[uid]
	if !known {
		return
	}
	delete(a.owner, uid)
	for last, holder := range a.pods[has.host] {
		if holder == uid {
			delete(a.pods[has.host], last)
		}
	}
}
