package webhooks

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// yamlObject is one document, before its type is known.
type yamlObject struct {
	kind    string
	content []byte
}

// UnmarshalJSON keeps the document and reads its kind.
func (o *yamlObject) UnmarshalJSON(content []byte) error {
	var meta struct {
		Kind string `json:"kind"`
	}
	o.content = bytes.Clone(content)
	if err := json.Unmarshal(content, &meta); err != nil {
		return fmt.Errorf("kind: %w", err)
	}
	o.kind = meta.Kind
	return nil
}

// into is strict: a field that the API server would drop is a mistake of the chart.
func (o *yamlObject) into(object any) error {
	decoder := json.NewDecoder(bytes.NewReader(o.content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(object); err != nil {
		return fmt.Errorf("%s: %w", o.kind, err)
	}
	return nil
}
