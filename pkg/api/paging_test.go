package api

import (
	"slices"
	"testing"
)

func TestAListComesInPages(t *testing.T) {
	t.Parallel()
	_, h := newWorld(t, many(25)...)
	var names []string
	token, rounds := "", 0
	for {
		var page listing
		read(t, h, "viewer", "/v1/harvester/nodes?limit=10&continue="+token, &page)
		for i := range page.Data {
			names = append(names, page.Data[i].ID)
		}
		if page.Type != "collection" || page.ResourceType != "node" || page.Count != 25 || page.Revision != "7" {
			t.Errorf("the page is %s of %s, %d at %s", page.Type, page.ResourceType, page.Count, page.Revision)
		}
		rounds++
		if token = page.Continue; token == "" {
			break
		}
	}
	if rounds != 3 || len(names) != 25 || !slices.IsSorted(names) || len(slices.Compact(names)) != 25 {
		t.Errorf("%d pages have %v", rounds, names)
	}
	var page listing
	read(t, h, "viewer", "/v1/harvester/nodes?pagesize=10&page=3", &page)
	if len(page.Data) != 5 || page.Data[0].ID != "n020" || page.Pages != 3 {
		t.Errorf("page 3 of %d begins with %s and has %d", page.Pages, page.Data[0].ID, len(page.Data))
	}
	var beyond listing
	read(t, h, "viewer", "/v1/harvester/nodes?pagesize=10&page=9", &beyond)
	if len(beyond.Data) != 0 {
		t.Errorf("page 9 has %d", len(beyond.Data))
	}
}
