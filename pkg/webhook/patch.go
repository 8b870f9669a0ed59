package webhook

import (
	"encoding/json"
	"fmt"
	"strings"
)

// operation is one step of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"` // never empty where the operation has one
}

// pointer escapes the parts of a path: keys of labels and annotations hold slashes.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

func path(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(pointer.Replace(part))
	}
	return b.String()
}

// setKey sets a key of a map of strings. "add" needs its parent, so a map that is not
// there is added as a whole.
func setKey(existing map[string]string, at []string, key, value string) operation {
	if existing == nil {
		return operation{Op: "add", Path: path(at...), Value: map[string]string{key: value}}
	}
	return operation{Op: "add", Path: path(at...) + path(key), Value: value}
}

// removeKeys removes those of the keys that are there: "remove" fails for others.
func removeKeys(existing map[string]string, at []string, keys ...string) []operation {
	var operations []operation
	for _, key := range keys {
		if _, ok := existing[key]; ok {
			operations = append(operations, operation{Op: "remove", Path: path(at...) + path(key)})
		}
	}
	return operations
}

func encodePatch(operations []operation) ([]byte, error) {
	raw, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	return raw, nil
}
