package maintenance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/rancher/wrangler/v3/pkg/generic"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// engagedNodes stands for wrangler's controller of nodes: a cache in which some are
// engaged, and a record of what was asked for.
type engagedNodes struct {
	corecontrollers.NodeController
	engaged engagedCache
	asked   []string
}

func (n *engagedNodes) Cache() generic.NonNamespacedCacheInterface[*corev1.Node] { return n.engaged }

type engagedCache struct {
	corecontrollers.NodeCache
	names []string
}

func (c engagedCache) GetByIndex(string, string) ([]*corev1.Node, error) {
	var nodes []*corev1.Node
	for _, name := range c.names {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return nodes, nil
}

func (n *engagedNodes) EnqueueAfter(name string, after time.Duration) {
	n.asked = append(n.asked, fmt.Sprintf("%s after %s", name, after))
}

// handFed is an informer whose events a test makes.
type handFed struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
}

func (i *handFed) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return nil, nil
}

// A change of storage that counts brings a pass to each node in maintenance, a completed
// one included, and no other change does. They are gathered, since Longhorn makes many.
func TestChangesOfStorageBringPasses(t *testing.T) {
	nodes, informer := &engagedNodes{engaged: engagedCache{names: []string{"w1", "w2"}}}, &handFed{}
	c := &Controller{Nodes: nodes}
	if err := c.WatchStorage(informer, func(before, now any) bool { return before != now }); err != nil {
		t.Fatal(err)
	}
	informer.handler.OnUpdate("nobody leads", "yet")
	c.leading.Store(true)
	informer.handler.OnUpdate("same", "same")
	if len(nodes.asked) > 0 {
		t.Errorf("asked for %v", nodes.asked)
	}
	for name, event := range map[string]func(){
		"added":   func() { informer.handler.OnAdd("a", false) },
		"changed": func() { informer.handler.OnUpdate("a", "b") },
		"deleted": func() { informer.handler.OnDelete("b") },
	} {
		nodes.asked = nil
		event()
		if want := []string{"w1 after " + gathering.String(), "w2 after " + gathering.String()}; !slices.Equal(nodes.asked, want) {
			t.Errorf("%s: asked for %v, want %v", name, nodes.asked, want)
		}
	}
}
