package maintenance

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Request is what a node's annotations ask for.
type Request struct {
	// Wanted is true when maintenance is asked for.
	Wanted bool
	// Forced is true when force is asked for, with a request or alone.
	Forced bool
	// Present is true when either annotation is there, whatever its value.
	Present bool
	// Problems names each annotation that is there and asks for nothing, with its value
	// and what would ask. Such an annotation is left where it is.
	Problems []string
}

// ReadRequest reads the request and force annotations.
//
// "true" asks, whatever its case and surrounding blanks, since a person who writes
// "True" means it. Any other value asks for nothing: guessing at "yes" or "1" could
// empty a host that nobody meant to empty. It is reported in Problems, "false" and ""
// included, since whoever writes "false" on a node in maintenance may believe that
// this leaves it.
func ReadRequest(node *corev1.Node) Request {
	var r Request
	r.Wanted = r.read(node, AnnotationRequested)
	r.Forced = r.read(node, AnnotationForced)
	return r
}

func (r *Request) read(node *corev1.Node, key string) bool {
	value, present := node.Annotations[key]
	if !present {
		return false
	}
	r.Present = true
	if strings.EqualFold(strings.TrimSpace(value), "true") {
		return true
	}
	r.Problems = append(r.Problems, fmt.Sprintf(
		"metadata.annotations[%s]: %q asks for nothing, only \"true\" does; removing %s leaves maintenance", key, value, AnnotationStatus))
	return false
}
