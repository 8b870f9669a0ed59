package stream

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/drydock-dev/drydock/pkg/api/feed"
)

// wish is what a client sends.
type wish struct {
	ResourceType    string `json:"resourceType"`
	ResourceVersion string `json:"resourceVersion"`
	Namespace       string `json:"namespace"`
	ID              string `json:"id"`
	Stop            bool   `json:"stop"`
}

// key tells subscriptions of one client apart.
type key struct{ resource, namespace, id string }

func (w *wish) key() key { return key{w.ResourceType, w.Namespace, w.ID} }

// wants reports whether an event belongs to the subscription.
func (k key) wants(event *feed.Event) bool {
	return k.resource == event.Kind.Type && (k.id == "" || k.id == event.ID) && (k.namespace == "" || k.namespace == event.Object.GetNamespace())
}

// message is what a client is sent.
type message struct {
	Name         string          `json:"name"`
	ResourceType string          `json:"resourceType,omitempty"`
	Namespace    string          `json:"namespace,omitempty"`
	ID           string          `json:"id,omitempty"`
	Revision     string          `json:"revision,omitempty"`
	Data         json.RawMessage `json:"data,omitempty"`
}

// Names of messages, beside those of changes.
const (
	started = "resource.start"
	stopped = "resource.stop"
	failed  = "resource.error"
	ping    = "ping"
)

func (k key) message(name string) message {
	return message{Name: name, ResourceType: k.resource, Namespace: k.namespace, ID: k.id}
}

func (k key) failure(sentence string) (message, error) {
	data, err := json.Marshal(map[string]string{"error": sentence})
	if err != nil {
		return message{}, fmt.Errorf("error message: %w", err)
	}
	m := k.message(failed)
	m.Data = data
	return m, nil
}

func eventMessage(event *feed.Event, data []byte) message {
	return message{
		Name: string(event.Change), ResourceType: event.Kind.Type, Revision: strconv.FormatUint(event.Revision, 10), Data: data,
	}
}
