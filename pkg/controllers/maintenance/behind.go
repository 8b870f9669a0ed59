package maintenance

import (
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
	mu       sync.Mutex
	versions map[string]string
}

// note says which version of a node must be seen.
func (b *behind) note(name, version string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.versions == nil {
		b.versions = map[string]string{}
	}
	b.versions[name] = version
}

// lags reports that the copy of a node, nil where there is none, is too old to act on. The
// change that brings a newer one brings a pass too.
func (b *behind) lags(name string, seen *corev1.Node) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	version, noted := b.versions[name]
	if !noted {
		return false
	}
	if seen == nil {
		return true
	}
	if order, err := resourceversion.CompareResourceVersion(seen.ResourceVersion, version); err == nil && order < 0 {
		return true
	}
	delete(b.versions, name)
	return false
}

// forget drops a node that was seen to be deleted.
func (b *behind) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.versions, name)
}
