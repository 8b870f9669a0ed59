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
	// Problems names each annotation whose value means nothing, with the value and
	// what is allowed. Such an annotation is left where it is and asks for nothing.
	Problems []string
}

// ReadRequest reads the request and force annotations.
//
// "true" asks, whatever its case and surrounding blanks, since a person who writes
// "True" means it; "false" and "" ask for nothing. Any other value asks for nothing
// and is reported in Problems: guessing at "yes" or "1" could empty a host that
// nobody meant to empty.
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
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true":
		return true
	case "false", "":
		return false
	}
	r.Problems = append(r.Problems, fmt.Sprintf("metadata.annotations[%s]: invalid value %q: only \"true\" asks for something", key, value))
	return false
}
