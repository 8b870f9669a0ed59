package maintenance

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Vocabulary is the words that a request and its progress are written in on a node. It
// differs by who else reads them.
type Vocabulary struct {
	// Requested and Forced are the annotations by which maintenance is asked for.
	Requested, Forced string
	// Running is the value of [AnnotationStatus] until the node is empty.
	Running string
	// Foreign is an annotation by which another controller is asked for maintenance, ""
	// where there is none.
	Foreign string
}

var (
	// Plain is the vocabulary where Drydock is alone.
	Plain = Vocabulary{Requested: AnnotationRequested, Forced: AnnotationForced, Running: StatusRunning}
	// Takeover is the vocabulary beside Harvester's own controllers: the Node webhook
	// renames a request before they see it, and their status value is not used.
	Takeover = Vocabulary{Requested: AnnotationRenamedRequested, Forced: AnnotationRenamedForced, Running: StatusDraining, Foreign: AnnotationRequested}
)

// Request is what a node's annotations ask for.
type Request struct {
	// Wanted is true when maintenance is asked for.
	Wanted bool
	// Forced is true when force is asked for, with a request or alone.
	Forced bool
	// Clear is true when a refusal is to be dismissed.
	Clear bool
	// By names who asked, "" when that is not known.
	By string
	// Foreign is true when another controller is asked.
	Foreign bool
	// Present is true when one of the annotations is there, whatever its value.
	Present bool
	// Problems names each annotation that is there and asks for nothing, with its value
	// and what would ask. Such an annotation is left where it is.
	Problems []string
}

// Request reads the request and force annotations.
//
// "true" asks, whatever its case and surrounding blanks, since a person who writes
// "True" means it. Any other value asks for nothing: guessing at "yes" or "1" could
// empty a host that nobody meant to empty. It is reported in Problems, "false" and ""
// included, since whoever writes "false" on a node in maintenance may believe that
// this leaves it.
func (v Vocabulary) Request(node *corev1.Node) Request {
	r := Request{By: node.Annotations[AnnotationRequestedBy]}
	r.Wanted = r.read(node, v.Requested)
	r.Forced = r.read(node, v.Forced)
	r.Clear = r.read(node, AnnotationClear)
	r.Foreign = v.foreign(node)
	r.Present = r.Present || r.Foreign
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

// Engaged is [Engaged], and true as well for a node with a request that another
// controller serves. That one looks at the annotation alone, whatever its value.
func (v Vocabulary) Engaged(node *corev1.Node) bool {
	return Engaged(node) || v.foreign(node)
}

func (v Vocabulary) foreign(node *corev1.Node) bool {
	_, asked := node.Annotations[v.Foreign]
	return v.Foreign != "" && asked
}
