package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Body renders what all clients see alike: the object without the actions and links that
// depend on who asks, and from where. [Complete] adds those. metadata.managedFields is
// left out, which no client here reads and which is half of a node.
func Body(kind *Kind, object Object) ([]byte, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind.Type, ID(object), err)
	}
	content["id"], content["type"] = ID(object), kind.Type
	content["kind"], content["apiVersion"] = kind.Name, strings.TrimPrefix(kind.Group+"/"+kind.Version, "/")
	metadata, ok := content["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		content["metadata"] = metadata
	}
	delete(metadata, "managedFields")
	metadata["relationships"] = []any{}
	metadata["fields"], metadata["state"] = fields(object), stateOf(object)
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind.Type, ID(object), err)
	}
	return raw, nil
}

func stateOf(object Object) State {
	switch o := object.(type) {
	case *corev1.Node:
		return nodeState(o)
	case *corev1.Namespace:
		return phaseState(string(o.Status.Phase))
	case *corev1.Pod:
		return phaseState(string(o.Status.Phase))
	}
	return State{Name: "active"}
}

func phaseState(phase string) State {
	return State{Name: strings.ToLower(phase), Error: phase == string(corev1.PodFailed), Transitioning: phase == string(corev1.PodPending) || phase == string(corev1.NamespaceTerminating)}
}

func fields(object Object) []any {
	if node, ok := object.(*corev1.Node); ok {
		return nodeFields(node)
	}
	return []any{object.GetName()}
}

// Complete appends actions and links to a body.
func Complete(body []byte, actions, links map[string]string) ([]byte, error) {
	tail, err := json.Marshal(map[string]any{"actions": nonNil(actions), "links": nonNil(links)})
	if err != nil {
		return nil, fmt.Errorf("actions and links: %w", err)
	}
	return bytes.Join([][]byte{body[:len(body)-1], tail[1:]}, []byte(",")), nil
}

func nonNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// Exclude removes the fields that dotted paths name from a rendered object.
func Exclude(raw []byte, paths []string) ([]byte, error) {
	if len(paths) == 0 {
		return raw, nil
	}
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, fmt.Errorf("fields to leave out: %w", err)
	}
	for _, path := range paths {
		remove(content, strings.Split(path, "."))
	}
	left, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("fields to leave out: %w", err)
	}
	return left, nil
}

func remove(content map[string]any, path []string) {
	for len(path) > 1 {
		inner, ok := content[path[0]].(map[string]any)
		if !ok {
			// A key may hold dots itself, as annotations do.
			delete(content, strings.Join(path, "."))
			return
		}
		content, path = inner, path[1:]
	}
	delete(content, path[0])
}
