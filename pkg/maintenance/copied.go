package maintenance

import (
	"slices"
	"strings"
)

// LabelPrefix is that of Harvester's own labels and annotations.
const LabelPrefix = "harvesterhci.io/"

// AnnotationCopied is on launcher pods and lists the labels that Drydock has copied to
// them from their VMI, see [DecodeCopied]: those it may remove again.
const AnnotationCopied = "drydock.dev/copied-labels"

// DecodeCopied reads the value of AnnotationCopied.
func DecodeCopied(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
}

// EncodeCopied returns the value of AnnotationCopied. A key cannot hold the comma that
// stands between them.
func EncodeCopied(keys []string) string {
	return strings.Join(slices.Sorted(slices.Values(keys)), ",")
}
