package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// write brings an object's spec and status to the given fields; others stay as
// they are. It writes nothing when nothing differs. Maps are compared as a
// whole: a key that is not wanted is removed.
func (l *longhorn) write(ctx context.Context, resource string, object *unstructured.Unstructured, spec, status map[string]any) error {
	for _, part := range []struct {
		section      string
		fields       map[string]any
		subresources []string
	}{{"spec", spec, nil}, {"status", status, []string{"status"}}} {
		current, _, _ := unstructured.NestedMap(object.Object, part.section)
		differs := difference(current, part.fields)
		if len(differs) == 0 {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.GetUID()}, part.section: differs})
		if err != nil {
			return fmt.Errorf("encode the %s of %s %s: %w", part.section, resource, object.GetName(), err)
		}
		_, err = l.client.Resource(longhornResource(resource)).Namespace(longhornNamespace).
			Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, part.subresources...)
		if err != nil {
			return fmt.Errorf("patch the %s of %s %s: %w", part.section, resource, object.GetName(), err)
		}
	}
	return nil
}

func difference(current, wanted map[string]any) map[string]any {
	differs := map[string]any{}
	for key, value := range wanted {
		if now := current[key]; !same(now, value) {
			if wantedMap, ok := value.(map[string]any); ok {
				value = replacing(now, wantedMap)
			}
			differs[key] = value
		}
	}
	return differs
}

// same treats what is absent and what is empty alike, as the API server does
// with the defaults it fills in; otherwise every look would write.
func same(now, wanted any) bool {
	if isEmpty(now) && isEmpty(wanted) {
		return true
	}
	switch wanted := wanted.(type) {
	case map[string]any:
		before, ok := now.(map[string]any)
		if !ok {
			return false
		}
		for key := range before {
			if !same(before[key], wanted[key]) {
				return false
			}
		}
		for key := range wanted {
			if !same(before[key], wanted[key]) {
				return false
			}
		}
		return true
	case []any:
		before, ok := now.([]any)
		return ok && slices.EqualFunc(before, wanted, same)
	}
	return equality.Semantic.DeepEqual(now, wanted)
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case bool:
		return !value
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return false
}

// replacing makes a merge patch replace a map: what is to go is set to null.
func replacing(now any, wanted map[string]any) map[string]any {
	patch := map[string]any{}
	if before, ok := now.(map[string]any); ok {
		for key := range before {
			patch[key] = nil
		}
	}
	for key, value := range wanted {
		patch[key] = value
	}
	return patch
}

func text(object *unstructured.Unstructured, fields ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, fields...)
	return value
}
