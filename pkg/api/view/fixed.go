package view

// Objects that Harvester's front-end reads before it shows anything, on a cluster that
// has no such kinds.

// serverVersion is the oldest version of Harvester whose front-end shows what is served
// here.
const serverVersion = "v1.3.2"

// Fixed returns the objects of a fixed kind, by id. Counts and schemas depend on who asks;
// they are not among them.
func Fixed(kind *Kind, base string) []map[string]any {
	switch kind.Type {
	case Settings.Type:
		return []map[string]any{setting(kind, base, "first-login", "false"), setting(kind, base, "server-version", serverVersion)}
	case HCISetting.Type:
		return []map[string]any{setting(kind, base, "server-version", serverVersion)}
	case Clusters.Type:
		cluster := fixed(kind, base, "local")
		cluster["spec"] = map[string]any{"displayName": "local", "internal": true}
		cluster["status"] = map[string]any{
			"provider": "harvester", "driver": "harvester",
			"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		}
		return []map[string]any{cluster}
	}
	return nil
}

func setting(kind *Kind, base, name, value string) map[string]any {
	s := fixed(kind, base, name)
	s["value"], s["default"], s["source"] = value, value, "default"
	return s
}

func fixed(kind *Kind, base, name string) map[string]any {
	return map[string]any{
		"id": name, "type": kind.Type, "kind": kind.Name, "apiVersion": kind.Group + "/" + kind.Version,
		"metadata": map[string]any{
			"name": name, "fields": []any{name}, "relationships": []any{}, "state": State{Name: "active"},
		},
		"links": map[string]string{"self": base + Prefix + kind.Plural + "/" + name}, "actions": map[string]string{},
	}
}

// Prefix is where everything is served.
const Prefix = "/v1/harvester/"

// Schema describes a kind. Nothing but nodes' actions changes anything, so that every kind
// can only be read.
func Schema(kind *Kind, base string) map[string]any {
	schema := map[string]any{
		"id": kind.Type, "type": "schema", "pluralName": kind.Plural,
		"links":           map[string]string{"self": base + Prefix + "schemas/" + kind.Type, "collection": base + Prefix + kind.Plural},
		"actions":         map[string]string{},
		"resourceMethods": []string{"GET"}, "collectionMethods": []string{"GET"},
		"resourceFields": map[string]any{},
	}
	attributes := map[string]any{}
	if kind.Resource != "" {
		attributes = map[string]any{
			"group": kind.Group, "kind": kind.Name, "namespaced": kind.Namespaced, "resource": kind.Resource,
			"verbs": []string{"get", "list", "watch"}, "version": kind.Version,
		}
	}
	schema["attributes"] = attributes
	return schema
}

// Count is the one object of the kind of that name.
func Count(base string, counts map[string]int, revision string) map[string]any {
	summaries := map[string]any{}
	for kind, n := range counts {
		summaries[kind] = map[string]any{"summary": map[string]any{"count": n}, "revision": revision}
	}
	return map[string]any{
		"id": "count", "type": "count", "counts": summaries, "actions": map[string]string{},
		"links": map[string]string{"self": base + Prefix + "counts/count"},
	}
}
