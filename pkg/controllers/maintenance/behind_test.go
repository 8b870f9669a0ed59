package maintenance

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A new leader acts on no node before it sees it as it was when it began to lead.
func TestNothingIsDoneOnAnOldCopyOfANode(t *testing.T) {
	version := func(name, v string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: v}}
	}
	var b behind
	lists := 0
	live := func() (*corev1.NodeList, error) {
		if lists++; lists == 1 {
			return nil, errors.New("nobody answers")
		}
		return &corev1.NodeList{Items: []corev1.Node{*version("n", "100"), *version("gone", "5")}}, nil
	}
	if old, err := b.lags("n", version("n", "100"), live); !old || err == nil {
		t.Errorf("nobody knows what the nodes are: it lags: %t, %v", old, err)
	}
	for _, step := range []struct {
		what string
		name string
		seen *corev1.Node
		lags bool
	}{
		{"it is not there yet", "n", nil, true},
		{"it is older, and compares as a number", "n", version("n", "99"), true},
		{"it is as it was", "n", version("n", "100"), false},
		{"what was seen once is enough", "n", version("n", "98"), false},
		{"it came later", "another", nil, false},
		{"it is deleted, which is not seen yet", "gone", nil, true},
	} {
		if old, err := b.lags(step.name, step.seen, live); old != step.lags || err != nil {
			t.Errorf("%s: it lags: %t, %v", step.what, old, err)
		}
	}
	b.forget("gone")
	if old, err := b.lags("gone", nil, live); old || err != nil {
		t.Errorf("a deleted node is waited for: %v", err)
	}
	if lists != 2 {
		t.Errorf("the nodes were listed %d times, want once without an answer and once with", lists)
	}
	b.begin()
	if old, err := b.lags("n", version("n", "99"), live); !old || err != nil {
		t.Errorf("a process that leads again has an old copy: it lags: %t, %v", old, err)
	}
}
