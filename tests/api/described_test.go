package api

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/drydock-dev/drydock/tests/operator"
)

// What is answered is what the description says, on objects of a real cluster.
func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	h := serving(t)
	ns, pool := h.Namespace(t), h.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t,
		operator.Movable(h.Cluster, ns, "stays", pool).Annotate(stays, "HostDeviceNotLiveMigratable: a device"),
		operator.Movable(h.Cluster, ns, "moves", pool), operator.Movable(h.Cluster, ns, "stops", pool).Strategy("Shutdown"))
	c := h.account(t, viewNodes, updateNodes, rule("", "pods", "list", "get"), rule("", "namespaces", "list", "get"))
	document, err := openapi3.NewLoader().LoadFromData([]byte(c.send(t, http.MethodGet, "/v1/openapi.json", "").body))
	if err != nil {
		t.Fatal(err)
	}
	for _, ask := range []struct{ method, path, described, body string }{
		{"GET", "/nodes", "/nodes", ""},
		{"GET", "/nodes?limit=2", "/nodes", ""},
		{"GET", "/nodes?limit=few", "/nodes", ""},
		{"GET", "/nodes/" + host, "/nodes/{name}", ""},
		{"GET", "/nodes/no-such-node", "/nodes/{name}", ""},
		{"GET", "/nodes/" + host + "?action=cordon", "/nodes/{name}", ""},
		{"GET", "/namespaces", "/namespaces", ""},
		{"GET", "/namespaces/" + ns, "/namespaces/{id}", ""},
		{"GET", "/pods?exclude=status", "/pods", ""},
		{"GET", "/schemas", "/schemas", ""},
		{"GET", "/counts", "/counts", ""},
		{"GET", "/management.cattle.io.settings", "/management.cattle.io.settings", ""},
		{"GET", "/management.cattle.io.clusters/local", "/management.cattle.io.clusters/{id}", ""},
		{"GET", "/harvesterhci.io.settings", "/harvesterhci.io.settings", ""},
		{"POST", "/nodes/" + host + "?action=maintenancePlan", "/nodes/{name}", ""},
		{"POST", "/nodes/" + host + "?action=listUnhealthyVM", "/nodes/{name}", ""},
		{"POST", "/nodes/" + host + "?action=maintenancePossible", "/nodes/{name}", ""},
		{"POST", "/nodes/" + host + "?action=powerActionPossible", "/nodes/{name}", "{}"},
		{"POST", "/nodes/" + host + "?action=enableMaintenanceMode", "/nodes/{name}", `{"force":"false"}`},
		{"POST", "/nodes/" + host + "?action=enableMaintenanceMode", "/nodes/{name}", `{"force":"perhaps"}`},
		{"POST", "/nodes/" + host + "?action=dance", "/nodes/{name}", ""},
	} {
		a := c.send(t, ask.method, "/v1/harvester"+ask.path, ask.body)
		described := document.Paths.Find(ask.described).GetOperation(ask.method).Responses.Status(a.status)
		if described == nil {
			t.Errorf("%s %s: %d is not described: %s", ask.method, ask.path, a.status, a.body)
			continue
		}
		media := described.Value.Content.Get("application/json")
		if media == nil {
			continue
		}
		var value any
		if err := json.Unmarshal([]byte(a.body), &value); err != nil {
			t.Errorf("%s %s: %v: %s", ask.method, ask.path, err, a.body)
			continue
		}
		if err := media.Schema.Value.VisitJSON(value); err != nil {
			t.Errorf("%s %s: %v", ask.method, ask.path, err)
		}
		if object, ok := value.(map[string]any); ok && ask.method == http.MethodPost && object["id"] != nil && object["type"] != nil {
			t.Errorf("%s %s: a front-end takes the answer for an object", ask.method, ask.path)
		}
	}
}
