package feed

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/drydock-dev/drydock/pkg/api/view"
)

// Change is what happened to an object.
type Change string

// Changes, as clients know them.
const (
	Created Change = "resource.create"
	Changed Change = "resource.change"
	Removed Change = "resource.remove"
)

// Item is one version of an object. What is rendered of it is rendered once for all
// readers.
type Item struct {
	ID     string
	Object view.Object

	// Kind is what it is.
	Kind *view.Kind
	once sync.Once
	body []byte
	err  error
}

// Body is the object as all clients see it, see [view.Body].
func (i *Item) Body() ([]byte, error) {
	i.once.Do(func() { i.body, i.err = view.Body(i.Kind, i.Object) })
	return i.body, i.err
}

// Event is a change.
type Event struct {
	Change Change
	*Item
	// Revision never falls from one event to the next.
	Revision uint64
	// tied is set where it did not grow either: whoever has seen the revision may not have
	// seen the event.
	tied bool
}

// history is how many events are kept for readers that come back.
const history = 512

// Feed holds the objects of one kind.
type Feed struct {
	kind *view.Kind

	mu       sync.Mutex
	items    map[string]*Item
	revision uint64
	// recent are the last events, oldest first: all whose revision is after since.
	recent  []Event
	since   uint64
	readers map[*Reader]struct{}
}

// New returns an empty feed.
func New(kind *view.Kind) *Feed {
	return &Feed{kind: kind, items: map[string]*Item{}, readers: map[*Reader]struct{}{}}
}

// Follow fills the feed from an informer, which the caller starts. synced tells when all
// objects of its first list have arrived.
func (f *Feed) Follow(informer cache.SharedInformer) (synced cache.InformerSynced, err error) {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    f.set,
		UpdateFunc: func(_, object any) { f.set(object) },
		DeleteFunc: f.remove,
	})
	if err != nil {
		return nil, err
	}
	return registration.HasSynced, nil
}

func (f *Feed) set(object any) {
	o, ok := object.(view.Object)
	if !ok {
		return
	}
	item := &Item{ID: view.ID(o), Object: o, Kind: f.kind}
	f.mu.Lock()
	defer f.mu.Unlock()
	change := Created
	if before, exists := f.items[item.ID]; exists {
		if before.Object.GetResourceVersion() == o.GetResourceVersion() {
			return // An informer that has listed anew tells what is known.
		}
		change = Changed
	}
	f.items[item.ID] = item
	f.tell(change, item)
}

func (f *Feed) remove(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	o, ok := object.(view.Object)
	if !ok {
		return
	}
	item := &Item{ID: view.ID(o), Object: o, Kind: f.kind}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.items, item.ID)
	f.tell(Removed, item)
}

// tell is called with the lock held.
func (f *Feed) tell(change Change, item *Item) {
	// The cluster's own number, so that a reader may go to another replica with it; but
	// never less than the last, where a deletion was found out only later.
	before := f.revision
	f.revision = max(f.revision, view.Revision(item.Object.GetResourceVersion()))
	event := Event{Change: change, Item: item, Revision: f.revision, tied: f.revision == before}
	f.recent = append(f.recent, event)
	if len(f.recent) > history {
		f.since = f.recent[0].Revision
		f.recent = slices.Delete(f.recent, 0, 1)
	}
	for reader := range f.readers {
		if !reader.offer(event) {
			delete(f.readers, reader)
		}
	}
}

// List returns the objects, ordered by id, and the revision that they are at.
func (f *Feed) List() (items []*Item, revision uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sorted(), f.revision
}

func (f *Feed) sorted() []*Item {
	items := make([]*Item, 0, len(f.items))
	for _, item := range f.items {
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b *Item) int { return strings.Compare(a.ID, b.ID) })
	return items
}

// Get returns one object, nil when there is none.
func (f *Feed) Get(id string) *Item {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.items[id]
}

// Count is how many objects there are, and at which revision.
func (f *Feed) Count() (count int, revision uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.items), f.revision
}

// Now begins with what comes next, see Read.
const Now = "-1"

// Read begins to hand events to the reader: first what happened after the given revision,
// then what happens. "" begins with all objects that there are, [Now] with none. Where
// the revision is too old, or of another cluster, all objects are told as changed: what
// was removed meanwhile is then missed, which a client that lists from time to time finds.
func (f *Feed) Read(reader *Reader, revision string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, err := strconv.ParseUint(revision, 10, 64)
	switch {
	case revision == Now:
	case err == nil && from > f.since && from <= f.revision:
		for _, event := range f.recent {
			if event.Revision > from || event.Revision == from && event.tied {
				reader.catchUp(event)
			}
		}
	default:
		change := Changed
		if revision == "" {
			change = Created
		}
		for _, item := range f.sorted() {
			reader.catchUp(Event{Change: change, Item: item, Revision: f.revision})
		}
	}
	f.readers[reader] = struct{}{}
}

// Leave ends what Read began.
func (f *Feed) Leave(reader *Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, reader)
}
