package maintenance

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// behind are the nodes whose copies here are older than those that the API server had when
// this process began to lead. The leader before has acted on newer ones: where it has
// taken a node into maintenance, an older copy would have VMs started that it has just
// stopped; where it has let one go, VMs evicted that stay. Around a restart of the API
// server each watch comes back in its own time, up to half a minute apart.
type behind struct {
	mu sync.Mutex
	// asked is true once the API server was asked since the process began to lead.
	asked    bool
	versions map[string]string
}

// begin has the API server asked anew.
func (b *behind) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = false
}

// lags reports that the copy of a node, nil where there is none, is too old to act on. The
// change that brings a newer one brings a pass too. The first call lists the nodes: without
// an answer there is nothing to act on.
func (b *behind) lags(name string, seen *corev1.Node, list func() (*corev1.NodeList, error)) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.asked {
		live, err := list()
		if err != nil {
			return true, fmt.Errorf("nodes as they are now: %w", err)
		}
		b.versions = make(map[string]string, len(live.Items))
		for n := range live.Items {
			b.versions[live.Items[n].Name] = live.Items[n].ResourceVersion
		}
		b.asked = true
	}
	version, noted := b.versions[name]
	if !noted {
		return false, nil
	}
	if seen == nil {
		return true, nil
	}
	if order, err := resourceversion.CompareResourceVersion(seen.ResourceVersion, version); err == nil && order < 0 {
		return true, nil
	}
	delete(b.versions, name)
	return false, nil
}

// forget drops a node that was seen to be deleted.
func (b *behind) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.versions, name)
}
