package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

func TestAPodThatCameBackIsTold(t *testing.T) {
	evicted := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	for name, test := range map[string]struct {
		owner   types.UID
		age     time.Duration // of its creation, after the eviction
		attempt Attempt
		want    bool
	}{
		"its controller made it after the eviction of another":    {owner: "set", attempt: Attempt{Owner: "set", Node: "n1", Code: 201}, want: true},
		"in the same second, which is all that it knows":          {owner: "set", age: -600, attempt: Attempt{Owner: "set", Node: "n1", Code: 201}, want: true},
		"by a clock that is a little behind":                      {owner: "set", age: -time.Second, attempt: Attempt{Owner: "set", Node: "n1", Code: 201}, want: true},
		"it was there before":                                     {owner: "set", age: -time.Minute, attempt: Attempt{Owner: "set", Node: "n1", Code: 201}},
		"the other was evicted from another node":                 {owner: "set", attempt: Attempt{Owner: "set", Node: "n2", Code: 201}},
		"the other's eviction was refused":                        {owner: "set", attempt: Attempt{Owner: "set", Node: "n1", Code: 429}},
		"nobody knows what became of the other's eviction":        {owner: "set", attempt: Attempt{Owner: "set", Node: "n1"}},
		"it belongs to another controller":                        {owner: "other", attempt: Attempt{Owner: "set", Node: "n1", Code: 201}},
		"it belongs to none, like those that were evicted before": {attempt: Attempt{Node: "n1", Code: 201}},
	} {
		t.Run(name, func(t *testing.T) {
			// The answer took its time.
			test.attempt.Sent, test.attempt.Last = evicted, evicted.Add(5*time.Second)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "now", CreationTimestamp: metav1.NewTime(evicted.Add(test.age))}}
			if test.owner != "" {
				yes := true
				pod.OwnerReferences = []metav1.OwnerReference{{UID: test.owner, Controller: &yes}}
			}
			s := &situation{record: &maintenance.NodeRecord{}, Snapshot: &Snapshot{Name: "n1", Attempts: map[types.UID]Attempt{"before": test.attempt}}}
			if got := s.cameBack(&Pod{Pod: pod}); got != test.want {
				t.Errorf("it came back: %t, want %t", got, test.want)
			}
		})
	}
}
