package maintenance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/rancher/wrangler/v3/pkg/generic"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
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

func (c engagedCache) Get(name string) (*corev1.Node, error) {
	if !slices.Contains(c.names, name) {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{maintenance.AnnotationNodeRecord: "{}"}}}, nil
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

// A VM that is off is in the report of the node that it was stopped for, before and after
// it was forgotten there.
func TestAStoppedVMBringsAPassToItsNode(t *testing.T) {
	nodes := &engagedNodes{engaged: engagedCache{names: []string{"w1"}}}
	vmis := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	c := &Controller{Nodes: nodes, VMIs: generic.NewCache[*kubevirtv1.VirtualMachineInstance](vmis, schema.GroupResource{Resource: "virtualmachineinstances"})}
	c.leading.Store(true)
	record := func(node string) *kubevirtv1.VirtualMachine {
		return &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Annotations: map[string]string{
			maintenance.AnnotationVMRecord: (&maintenance.VMRecord{ID: "m", Node: node}).Encode(),
		}}}
	}
	c.touchedByVM(record("w2"))
	c.touchedByVM(&kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}})
	if len(nodes.asked) > 0 {
		t.Errorf("asked for %v", nodes.asked)
	}
	c.touchedByVM(record("w1"))
	if !slices.Equal(nodes.asked, []string{"w1 after 0s"}) {
		t.Errorf("asked for %v", nodes.asked)
	}
}
