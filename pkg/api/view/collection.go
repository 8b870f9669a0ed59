package view

import "encoding/json"

// Collection is a list of objects.
type Collection struct {
	Type         string            `json:"type"`
	ResourceType string            `json:"resourceType"`
	Revision     string            `json:"revision,omitempty"`
	Count        int               `json:"count"`
	Continue     string            `json:"continue,omitempty"`
	Pages        int               `json:"pages,omitempty"`
	Links        map[string]string `json:"links"`
	Actions      map[string]string `json:"actions"`
	Data         []json.RawMessage `json:"data"`
}

// NewCollection begins a list that is found at the given address.
func NewCollection(kind *Kind, self string) *Collection {
	return &Collection{
		Type: "collection", ResourceType: kind.Type, Links: map[string]string{"self": self},
		Actions: map[string]string{}, Data: []json.RawMessage{},
	}
}
