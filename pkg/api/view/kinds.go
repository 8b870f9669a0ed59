package view

import (
	"k8s.io/apimachinery/pkg/runtime"

	corev1 "k8s.io/api/core/v1"
)

// Kind is a kind of object as clients name it.
type Kind struct {
	// Type is the name in messages, Plural the one in paths.
	Type, Plural string
	// Group, Version, Name and Resource are Kubernetes' own names.
	Group, Version, Name, Resource string
	Namespaced                     bool
	// Fixed is true for what exists only in this API, see [Fixed].
	Fixed bool
}

// The kinds that are served.
var (
	Nodes      = Kind{Type: "node", Plural: "nodes", Version: "v1", Name: "Node", Resource: "nodes"}
	Namespaces = Kind{Type: "namespace", Plural: "namespaces", Version: "v1", Name: "Namespace", Resource: "namespaces"}
	Pods       = Kind{Type: "pod", Plural: "pods", Version: "v1", Name: "Pod", Resource: "pods", Namespaced: true}
	Settings   = Kind{Type: "management.cattle.io.setting", Plural: "management.cattle.io.settings", Group: "management.cattle.io", Version: "v3", Name: "Setting", Resource: "settings", Fixed: true}
	Clusters   = Kind{Type: "management.cattle.io.cluster", Plural: "management.cattle.io.clusters", Group: "management.cattle.io", Version: "v3", Name: "Cluster", Resource: "clusters", Fixed: true}
	HCISetting = Kind{Type: "harvesterhci.io.setting", Plural: "harvesterhci.io.settings", Group: "harvesterhci.io", Version: "v1beta1", Name: "Setting", Resource: "settings", Fixed: true}
	Counts     = Kind{Type: "count", Plural: "counts", Fixed: true}
	Schemas    = Kind{Type: "schema", Plural: "schemas", Fixed: true}
)

// Kinds lists them in the order in which they are shown.
var Kinds = []Kind{Nodes, Namespaces, Pods, Settings, Clusters, HCISetting, Counts, Schemas}

// Object is what every kind that is not fixed has.
type Object interface {
	runtime.Object
	GetName() string
	GetNamespace() string
	GetResourceVersion() string
}

var (
	_ Object = &corev1.Node{}
	_ Object = &corev1.Namespace{}
	_ Object = &corev1.Pod{}
)

// ID is the object's name in this API.
func ID(object Object) string {
	if ns := object.GetNamespace(); ns != "" {
		return ns + "/" + object.GetName()
	}
	return object.GetName()
}
