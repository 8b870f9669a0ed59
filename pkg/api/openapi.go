package api

import (
	_ "embed"
	"net/http"
	"sync"

	"sigs.k8s.io/yaml"
)

// openAPI describes what is served; a test holds it against the handlers.
//
//go:embed openapi.yaml
var openAPI []byte

var openAPIJSON = sync.OnceValues(func() ([]byte, error) { return yaml.YAMLToJSON(openAPI) })

// description serves it. It tells nothing about the cluster, but like everything here it is
// for callers that are known.
func (s *server) description(w http.ResponseWriter, r *http.Request) {
	raw, err := openAPIJSON()
	if err != nil {
		fail(w, problemf(http.StatusInternalServerError, "%v", err))
		return
	}
	writeRaw(w, r, raw)
}
