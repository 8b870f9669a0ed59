package maintenance

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestOnlyTrueAsks(t *testing.T) {
	for value, want := range map[string]struct{ asks, problem bool }{
		"true": {asks: true}, "True": {asks: true}, "  TRUE": {asks: true},
		"false": {problem: true}, "": {problem: true}, "yes": {problem: true}, "1": {problem: true}, "truee": {problem: true},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationRequested: value}}}
		got := Plain.Request(node)
		if got.Wanted != want.asks || len(got.Problems) > 0 != want.problem || got.Forced || !got.Present {
			t.Errorf("%q reads as %+v", value, got)
		}
		if want.problem && (!strings.Contains(got.Problems[0], AnnotationRequested) || !strings.Contains(got.Problems[0], `"true"`)) {
			t.Errorf("the problem with %q names neither the annotation nor what is allowed: %s", value, got.Problems[0])
		}
	}
	if got := Plain.Request(&corev1.Node{}); got.Wanted || got.Forced || got.Present || len(got.Problems) > 0 {
		t.Errorf("a node without annotations asks for %+v", got)
	}
}

func TestTheRenamedKeysAloneAskBesideHarvester(t *testing.T) {
	node := func(keys ...string) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
		for _, key := range keys {
			node.Annotations[key] = "true"
		}
		return node
	}
	for name, c := range map[string]struct {
		words         Vocabulary
		node          *corev1.Node
		asks, engaged bool
	}{
		"alone, plain":              {words: Plain, node: node(AnnotationRequested), asks: true},
		"alone, renamed":            {words: Plain, node: node(AnnotationRenamedRequested)},
		"beside, plain":             {words: Takeover, node: node(AnnotationRequested), engaged: true},
		"beside, renamed":           {words: Takeover, node: node(AnnotationRenamedRequested), asks: true},
		"beside, engaged by others": {words: Takeover, node: node(AnnotationStatus), engaged: true},
	} {
		if got := c.words.Request(c.node).Wanted; got != c.asks {
			t.Errorf("%s: asks is %t", name, got)
		}
		if got := c.words.Engaged(c.node); got != c.engaged {
			t.Errorf("%s: engaged is %t", name, got)
		}
	}
}

func TestStrategiesAreReadLiterally(t *testing.T) {
	for _, s := range Strategies {
		if got, ok := ParseStrategy(string(s)); got != s || !ok {
			t.Errorf("%q reads as %q, %t", s, got, ok)
		}
	}
	for _, value := range []string{"", "migrate", "shutdown", " Shutdown", "Shutdown ", "nonsense"} {
		if got, unknown, valid := StrategyOf(map[string]string{LabelStrategy: value}); got != StrategyMigrate || valid || unknown != value {
			t.Errorf("%q reads as %q, unknown %q, valid %t", value, got, unknown, valid)
		}
	}
	if got, unknown, valid := StrategyOf(nil); got != StrategyMigrate || unknown != "" || !valid {
		t.Errorf("no label reads as %q, unknown %q, valid %t", got, unknown, valid)
	}
}

func TestRecordsSurviveTheirAnnotation(t *testing.T) {
	node := &NodeRecord{ID: "m", Forced: true, Started: metav1.NewTime(time.Unix(1900000000, 0)), CordonedBefore: true, Cordoned: true, Halted: HaltDrainLimit, VMs: 3, MarkedBefore: []types.UID{"a"}}
	read, err := NodeRecordOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationNodeRecord: node.Encode()}}})
	if err != nil || read.Encode() != node.Encode() {
		t.Errorf("the node's record reads as %+v, %v", read, err)
	}
	vm := &VMRecord{ID: "m", Node: "n1", NodeUID: "u", Restart: RestartAfterDisable, Source: SourceLabel, RunStrategy: "Manual", Stopped: "v", Starting: true}
	readVM, err := VMRecordOf(&metav1.ObjectMeta{UID: "own", Annotations: map[string]string{AnnotationVMRecord: vm.Encode()}})
	if err != nil || !reflect.DeepEqual(readVM, vm) {
		t.Errorf("the VM's record reads as %+v, %v", readVM, err)
	}
	for _, bad := range []string{"", "{", "[]", `"m"`, `{"forced":true}`} {
		if record, err := NodeRecordOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{AnnotationNodeRecord: bad}}}); err == nil || !strings.Contains(err.Error(), "n1") {
			t.Errorf("%q reads as %+v, %v", bad, record, err)
		}
	}
}

func TestWhoeverEngagedANodeItCounts(t *testing.T) {
	condition := func(status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: ConditionType, Status: status}}}}
	}
	annotated := func(key string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: "x"}}}
	}
	for name, test := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"condition True":                   {condition(corev1.ConditionTrue), true},
		"condition Unknown, validating":    {condition(corev1.ConditionUnknown), false},
		"condition False, refused":         {condition(corev1.ConditionFalse), false},
		"the status of another's":          {annotated(AnnotationStatus), true},
		"a record alone, while it is left": {annotated(AnnotationNodeRecord), true},
		"a request alone":                  {annotated(AnnotationRequested), false},
		"nothing":                          {&corev1.Node{}, false},
	} {
		if got := Engaged(test.node); got != test.want {
			t.Errorf("%s: engaged is %t, want %t", name, got, test.want)
		}
	}
}
