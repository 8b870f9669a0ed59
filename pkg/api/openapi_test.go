package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/drydock-dev/drydock/pkg/api/view"
)

func TestTheDescriptionIsTrue(t *testing.T) {
	t.Parallel()
	_, h := newWorld(t, node("w1"), node("w2"))
	response, body := ask(t, h, "stranger", http.MethodGet, "/v1/openapi.json", "")
	if response.StatusCode != http.StatusOK {
		t.Fatalf("it is answered with %d %s", response.StatusCode, body)
	}
	if _, other := ask(t, h, "stranger", http.MethodGet, "/openapi/v3", ""); other != body {
		t.Error("the two addresses differ")
	}
	document, err := openapi3.NewLoader().LoadFromData([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for path, item := range document.Paths.Map() {
		for _, server := range []string{"/v1/harvester", "/v1"} {
			if len(item.Servers) > 0 {
				server = item.Servers[0].URL
			}
			target := server + strings.NewReplacer("{name}", "w1", "{id}", "x").Replace(path)
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
				response, _ := ask(t, h, "editor", method, target, "")
				served := response.StatusCode != http.StatusMethodNotAllowed
				if said := item.GetOperation(method) != nil; said != served {
					t.Errorf("%s %s: described %t, answered %d", method, target, said, response.StatusCode)
				}
			}
			described[server+path] = true
		}
	}
	for i := range view.Kinds {
		for _, prefix := range []string{"/v1/", view.Prefix} {
			if !described[prefix+view.Kinds[i].Plural] {
				t.Errorf("%s%s is served and not described", prefix, view.Kinds[i].Plural)
			}
		}
	}
	var said []string
	for _, value := range document.Paths.Find("/nodes/{name}").Post.Parameters.GetByInAndName("query", "action").Schema.Value.Enum {
		said = append(said, value.(string))
	}
	var served []string
	for i := range actions {
		served = append(served, actions[i].name)
	}
	slices.Sort(said)
	slices.Sort(served)
	if !slices.Equal(said, served) {
		t.Errorf("described are the actions %v, served %v", said, served)
	}
}
