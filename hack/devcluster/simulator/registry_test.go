package simulator

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// A loss is remembered before the host ceases to act: in between, its handler must not
// report what only a host with power can see.
func TestALossShowsWhenThePowerIsBack(t *testing.T) {
	memory, err := openMemory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := host{name: "h", uid: "u", on: true}
	r := newRegistry(memory)
	r.put(h)
	power := func(off bool) {
		if err := memory.change(func(content *memoryContent) {
			content.Hosts[h.uid] = &hostMemory{Name: h.name, Off: off, Lost: map[types.UID]bool{"pod": true}}
		}); err != nil {
			t.Fatal(err)
		}
	}
	power(true)
	if r.lost(h, "pod") {
		t.Error("a host whose power goes sees that a pod died")
	}
	power(false)
	if !r.lost(h, "pod") || r.lost(h, "another") {
		t.Error("with the power back it is not known which pods died")
	}
}
