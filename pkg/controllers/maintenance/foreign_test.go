package maintenance

import (
	"errors"
	"strings"
	"testing"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/rancher/wrangler/v3/pkg/generic"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// records reads a VM's record as the real Gatherer does. That one of Drydock's own is
// acted on is not this test's: it fails, with nothing to act by.
type records struct{ Gatherer }

var errOwn = errors.New("it is Drydock's own")

func (records) VM(vm *kubevirtv1.VirtualMachine) (*plan.Snapshot, *plan.StoppedVM, error) {
	record, err := maintenance.VMRecordOf(vm)
	if record != nil {
		err = errOwn
	}
	return nil, nil, err
}

// knownNodes stands for wrangler's controller of nodes: a cache, by name.
type knownNodes struct {
	corecontrollers.NodeController
	known knownCache
}

func (n knownNodes) Cache() generic.NonNamespacedCacheInterface[*corev1.Node] { return n.known }

type knownCache struct {
	corecontrollers.NodeCache
	nodes map[string]*corev1.Node
}

func (c knownCache) Get(name string) (*corev1.Node, error) {
	if node := c.nodes[name]; node != nil {
		return node, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
}

// teller keeps the events that are told.
type teller struct {
	Executor
	events []plan.Event
}

func (t *teller) Tell(_ *corev1.Node, event plan.Event) { t.events = append(t.events, event) }

// A marker that starts nothing is reported whatever stands beside it: nothing, the record
// of the VM that this one was made from, or one that cannot be read.
func TestAMarkerByWhichNothingIsStartedIsReported(t *testing.T) {
	nodes := map[string]*corev1.Node{
		"out": {ObjectMeta: metav1.ObjectMeta{Name: "out"}},
		"in":  {ObjectMeta: metav1.ObjectMeta{Name: "in", Annotations: map[string]string{maintenance.AnnotationStatus: maintenance.StatusRunning}}},
		// Harvester serves this one alone.
		"asked": {ObjectMeta: metav1.ObjectMeta{Name: "asked", Annotations: map[string]string{maintenance.AnnotationRequested: "true"}}},
	}
	copied := (&maintenance.VMRecord{ID: "m", VM: "the one that it was made from", Node: "out"}).Encode()
	own := (&maintenance.VMRecord{ID: "m", VM: "1", Node: "out"}).Encode()
	for name, test := range map[string]struct {
		marker, record, says string
		fails                bool
	}{
		"no marker":                         {},
		"a marker alone":                    {marker: "out", says: "Drydock did not set it"},
		"a marker alone, of a node no more": {marker: "gone", says: "Drydock did not set it"},
		"a node in maintenance":             {marker: "in"},
		"a node that Harvester serves":      {marker: "asked"},
		"a copied record":                   {marker: "out", record: copied, says: "Drydock did not set it"},
		"a copied record and no marker":     {record: copied},
		"a copied record, in maintenance":   {marker: "in", record: copied},
		"an unreadable record":              {marker: "out", record: "{", says: "not a record", fails: true},
		"its own record":                    {marker: "out", record: own, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1", Annotations: map[string]string{}}}
			if test.marker != "" {
				vm.Annotations[maintenance.AnnotationMarker] = test.marker
			}
			if test.record != "" {
				vm.Annotations[maintenance.AnnotationVMRecord] = test.record
			}
			told := &teller{}
			c := &Controller{Words: maintenance.Takeover, Gatherer: records{}, Nodes: knownNodes{known: knownCache{nodes: nodes}}, Executor: told}
			c.leading.Store(true)
			for range 2 {
				if _, err := c.onVM("ns/a", vm); (err != nil) != test.fails {
					t.Fatalf("the pass ends with %v", err)
				}
			}
			if (len(told.events) > 0) != (test.says != "") || len(told.events) > 1 {
				t.Fatalf("it tells %+v", told.events)
			}
			for _, event := range told.events {
				if event.Reason != plan.EventVMForeign || !strings.Contains(event.Message, "names node "+test.marker) || !strings.Contains(event.Message, test.says) {
					t.Errorf("it tells %s: %q, want %q in it", event.Reason, event.Message, test.says)
				}
			}
		})
	}
}
