package feed

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/api/view"
)

func object(name string, version int) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: strconv.Itoa(version)}}
}

// told is what a reader has been handed, as "change name@revision".
func told(t *testing.T, reader *Reader) string {
	t.Helper()
	events, ok := reader.Take()
	if !ok {
		t.Fatal("the reader was let go")
	}
	var all []string
	for _, e := range events {
		all = append(all, fmt.Sprintf("%s %s@%d", strings.TrimPrefix(string(e.Change), "resource."), e.ID, e.Revision))
	}
	return strings.Join(all, ", ")
}

func filled() *Feed {
	f := New(&view.Nodes)
	f.set(object("b", 12))
	f.set(object("a", 10)) // An informer's first list has no order.
	f.set(object("a", 14))
	return f
}

func TestAReaderBeginsWhereItWantsTo(t *testing.T) {
	t.Parallel()
	for revision, want := range map[string]string{
		"": "create a@14, create b@14", Now: "", "14": "",
		"13": "change a@14", "12": "create a@14",
		"0": "change a@14, change b@14", "99": "change a@14, change b@14", "nonsense": "change a@14, change b@14",
	} {
		f, reader := filled(), NewReader(10)
		f.Read(reader, revision)
		if got := told(t, reader); got != want {
			t.Errorf("from %q: %q, want %q", revision, got, want)
		}
		f.set(object("c", 20))
		f.set(object("c", 20))
		f.remove(object("b", 21))
		if got, want := told(t, reader), "create c@20, remove b@21"; got != want {
			t.Errorf("from %q, later: %q, want %q", revision, got, want)
		}
	}
}

// Whatever the revision that a list was read at, the list with what is told after it is
// what there is.
func TestAListAndWhatFollowsIsComplete(t *testing.T) {
	t.Parallel()
	f := New(&view.Nodes)
	type moment struct {
		ids      []string
		revision uint64
	}
	var moments []moment
	for i := range 3 * history / 2 {
		name := "n" + strconv.Itoa(i%37)
		if i%5 == 4 {
			f.remove(object(name, i)) // sometimes found late: its version is an old one
		} else {
			f.set(object(name, i+1))
		}
		items, revision := f.List()
		m := moment{revision: revision}
		for _, item := range items {
			m.ids = append(m.ids, item.ID)
		}
		moments = append(moments, m)
	}
	now := moments[len(moments)-1].ids
	for _, m := range moments {
		reader := NewReader(10)
		f.Read(reader, strconv.FormatUint(m.revision, 10))
		events, ok := reader.Take()
		if !ok {
			t.Fatal("what is asked for at once does not fit")
		}
		has := map[string]bool{}
		for _, id := range m.ids {
			has[id] = true
		}
		for _, e := range events {
			has[e.ID] = e.Change != Removed
		}
		for _, id := range now {
			if !has[id] {
				t.Fatalf("after a list at %d, %s is missed", m.revision, id)
			}
		}
		if m.revision > f.since {
			for id, there := range has {
				if there && !slices.Contains(now, id) {
					t.Fatalf("after a list at %d, nobody tells that %s is gone", m.revision, id)
				}
			}
		}
		f.Leave(reader)
	}
}

func TestWhoFallsBehindIsLetGo(t *testing.T) {
	t.Parallel()
	f, slow, quick := New(&view.Nodes), NewReader(5), NewReader(5)
	f.Read(slow, Now)
	f.Read(quick, Now)
	for i := range 20 {
		f.set(object("a"+strconv.Itoa(i), i+1))
		if events, ok := quick.Take(); !ok || len(events) != 1 {
			t.Fatalf("the quick one has %v, %t", events, ok)
		}
	}
	if events, ok := slow.Take(); ok || len(events) > 0 {
		t.Errorf("the slow one keeps up, with %d events", len(events))
	}
	if len(f.readers) != 1 {
		t.Errorf("%d readers are left", len(f.readers))
	}
}

// However often an object changes, it waits once: who reads seldom keeps up with few
// objects, and hears the newest of each in the order of revisions.
func TestAnObjectWaitsOnce(t *testing.T) {
	t.Parallel()
	f, reader := filled(), NewReader(3)
	f.Read(reader, Now)
	f.set(object("a", 20))
	f.set(object("b", 21))
	for i := range 50 {
		f.set(object("a", 22+i))
	}
	if got, want := told(t, reader), "change b@21, change a@71"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	f.set(object("c", 80))
	f.set(object("c", 81))
	if got, want := told(t, reader), "create c@81"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	f.set(object("c", 90))
	f.remove(object("c", 91))
	f.set(object("c", 92))
	f.set(object("c", 93))
	if got, want := told(t, reader), "remove c@91, create c@93"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	f.set(object("d", 94))
	f.remove(object("d", 95))
	if got, want := told(t, reader), "remove d@95"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestAnObjectIsRenderedOnceForAll(t *testing.T) {
	t.Parallel()
	f := filled()
	first, err := f.Get("a").Body()
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.Get("a").Body()
	if err != nil || &first[0] != &again[0] {
		t.Error("it is rendered again")
	}
	f.set(object("a", 99))
	if other, err := f.Get("a").Body(); err != nil || !strings.Contains(string(other), `"resourceVersion":"99"`) {
		t.Errorf("a newer version is rendered as %s, %v", other, err)
	}
}
