package maintenance

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// looked remembers which nodes this process has looked at, by name and UID.
type looked struct {
	mu    sync.Mutex
	nodes map[string]types.UID
}

func (l *looked) at(node *corev1.Node) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes[node.Name] == node.UID
}

func (l *looked) note(node *corev1.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes == nil {
		l.nodes = map[string]types.UID{}
	}
	l.nodes[node.Name] = node.UID
}

func (l *looked) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.nodes, name)
}
