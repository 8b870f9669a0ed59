package labelsync

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// changes are those of an object's labels or annotations, as a merge patch has them: a
// nil value removes a key.
type changes map[string]any

func (c *changes) set(key string, value any) {
	if *c == nil {
		*c = changes{}
	}
	(*c)[key] = value
}

// toVMI returns how the labels of a VMI differ from those of its VM, nil when they do
// not.
func (s *Settings) toVMI(vm, vmi map[string]string) changes {
	var labels changes
	for _, key := range s.keys {
		want, wanted := vm[key]
		have, there := vmi[key]
		switch {
		case wanted && (!there || have != want):
			labels.set(key, want)
		case !wanted && there:
			labels.set(key, nil)
		}
	}
	return labels
}

// pod is what counts of a launcher pod.
type pod struct {
	labels, annotations map[string]string
}

// toPod returns how the labels of a launcher pod differ from those of its VMI, and with
// them the annotation that says which Drydock has copied; both are nil when nothing
// differs. A pod without that annotation goes by those of its predecessors.
//
// Heartbeats come through here, so it makes nothing until it must.
func (s *Settings) toPod(vmi map[string]string, target pod, predecessors func() []pod) (labels, annotations changes) {
	for key, want := range vmi {
		if have, there := target.labels[key]; s.covers(key) && (!there || have != want) {
			labels.set(key, want)
		}
	}
	copied := sync.OnceValue(func() map[string]bool { return s.copied(target, predecessors) })
	for key := range target.labels {
		if _, wanted := vmi[key]; !wanted && s.covers(key) && (slices.Contains(s.keys, key) || copied()[key]) {
			labels.set(key, nil)
		}
	}
	if labels == nil {
		return nil, nil
	}
	remembered := maps.Clone(copied())
	for key, value := range labels {
		remembered[key] = true
		if value == nil {
			delete(remembered, key)
		}
	}
	known, knows := target.annotations[maintenance.AnnotationCopied]
	value := maintenance.EncodeCopied(slices.Collect(maps.Keys(remembered)))
	// One that it has from its predecessors is written even if it is empty by now:
	// otherwise the pod would go on asking them.
	if known != value || !knows && len(copied()) > 0 {
		annotations.set(maintenance.AnnotationCopied, value)
	}
	return labels, annotations
}

// covers reports a label that pods get from their VMI. Nothing else is ever touched on
// a pod, whatever its annotation says: KubeVirt gives pods the annotations of their
// VMI, which people write.
func (s *Settings) covers(key string) bool { return strings.HasPrefix(key, s.prefix) }

// copied is what Drydock has copied to a pod.
func (s *Settings) copied(target pod, predecessors func() []pod) map[string]bool {
	set := map[string]bool{}
	sources := []pod{target}
	if _, knows := target.annotations[maintenance.AnnotationCopied]; !knows {
		sources = predecessors()
	}
	for _, source := range sources {
		for _, key := range maintenance.DecodeCopied(source.annotations[maintenance.AnnotationCopied]) {
			if s.covers(key) {
				set[key] = true
			}
		}
	}
	return set
}
