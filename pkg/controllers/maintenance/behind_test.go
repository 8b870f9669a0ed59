package maintenance

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A new leader acts on no node before it sees it as it was when it began to lead.
func TestNothingIsDoneOnAnOldCopyOfANode(t *testing.T) {
	var b behind
	b.note("n", "100")
	version := func(v string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: v}}
	}
	for _, step := range []struct {
		what string
		seen *corev1.Node
		lags bool
	}{
		{"it is not there yet", nil, true},
		{"it is older, and compares as a number", version("99"), true},
		{"it is as it was", version("100"), false},
		{"what was seen once is enough", version("98"), false},
	} {
		if got := b.lags("n", step.seen); got != step.lags {
			t.Errorf("%s: it lags: %t", step.what, got)
		}
	}
	if b.lags("another", nil) {
		t.Error("a node that came later lags")
	}
	b.note("gone", "5")
	b.forget("gone")
	if b.lags("gone", nil) {
		t.Error("a deleted node is waited for")
	}
}
