package bundle

import (
	"encoding/json"
	"strings"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// selection is which fields of an object are kept, those of a list's elements under the
// list's name. A field without any below it is kept whole.
type selection map[string]selection

// keeping makes a selection from dotted paths, and adds the metadata.
func keeping(paths ...string) selection {
	tree := selection{}
	for _, list := range [][]string{metadata, paths} {
		for _, path := range list {
			level := tree
			for _, segment := range strings.Split(path, ".") {
				if level[segment] == nil {
					level[segment] = selection{}
				}
				level = level[segment]
			}
		}
	}
	return tree
}

func under(prefix string, paths []string) []string {
	list := make([]string, 0, len(paths))
	for _, path := range paths {
		list = append(list, prefix+"."+path)
	}
	return list
}

// only returns a copy of a value with the fields that are kept. A scalar where an object
// is expected is none of them.
func (f selection) only(value any) any {
	if len(f) == 0 {
		return texts(value)
	}
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, below := range f {
			field, present := v[name]
			if !present {
				continue
			}
			if field = below.only(field); field != nil {
				kept[name] = field
			}
		}
		return kept
	case []any:
		kept := make([]any, 0, len(v))
		for _, element := range v {
			kept = append(kept, f.only(element))
		}
		return kept
	}
	return nil
}

// texts returns a copy of a value without the names of people in its texts.
func texts(value any) any {
	switch v := value.(type) {
	case string:
		return withoutPeople(v)
	case map[string]any:
		kept := make(map[string]any, len(v))
		for name, field := range v {
			kept[name] = texts(field)
		}
		return kept
	case []any:
		kept := make([]any, 0, len(v))
		for _, element := range v {
			kept = append(kept, texts(element))
		}
		return kept
	}
	return value
}

// redact returns what of an object goes into the archive.
func (k *kind) redact(object map[string]any) map[string]any {
	kept, _ := k.keep.only(object).(map[string]any)
	if meta, ok := kept["metadata"].(map[string]any); ok {
		present, _ := meta["annotations"].(map[string]any)
		if meta["annotations"] = annotations(present); len(present) == 0 {
			delete(meta, "annotations")
		}
	}
	return kept
}

const leftOut = "(left out)"

// ownDomain is that of Drydock's annotations.
const ownDomain = "drydock.dev/"

var keptAnnotations = map[string]bool{
	maintenance.AnnotationRequested: true, maintenance.AnnotationForced: true, maintenance.AnnotationStatus: true,
	maintenance.AnnotationMarker: true, maintenance.AnnotationRunStrategy: true,
	"kubevirt.io/evacuationMigration": true, "kubevirt.io/heartbeat": true, "kubevirt.io/latest-observed-api-version": true,
	"deployment.kubernetes.io/revision": true,
}

// annotations keeps the values of those that are known, and the keys of all: they may
// hold anything, as the whole object in kubectl's last-applied-configuration.
func annotations(present map[string]any) map[string]any {
	kept := make(map[string]any, len(present))
	for key, value := range present {
		text, _ := value.(string)
		switch {
		case key == maintenance.AnnotationRequestedBy:
			kept[key] = leftOut
		case key == maintenance.AnnotationNodeRecord:
			kept[key] = withoutRequester(text)
		case strings.HasPrefix(key, ownDomain) || keptAnnotations[key]:
			kept[key] = value
		default:
			kept[key] = leftOut
		}
	}
	return kept
}

// withoutRequester takes out who asked. What cannot be read is left out as a whole.
func withoutRequester(record string) string {
	var content map[string]any
	if json.Unmarshal([]byte(record), &content) != nil {
		return leftOut
	}
	if _, present := content["requestedBy"]; present {
		content["requestedBy"] = leftOut
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return leftOut
	}
	return string(raw)
}
