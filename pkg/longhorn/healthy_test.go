package longhorn

import (
	"testing"
	"time"

	longhornv1 "github.com/longhorn/longhorn-manager/k8s/pkg/apis/longhorn/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The node's own state is no part of it: the plan adds that.
func TestHealthyReplicas(t *testing.T) {
	deleted := metav1.NewTime(time.Unix(1900000000, 0))
	engine := func(mode longhornv1.ReplicaMode) []*longhornv1.Engine {
		return []*longhornv1.Engine{{Status: longhornv1.EngineStatus{ReplicaModeMap: map[string]longhornv1.ReplicaMode{"r": mode}}}}
	}
	for name, test := range map[string]struct {
		healthyAt, failedAt string
		deleted             *metav1.Time
		engines             []*longhornv1.Engine
		want                bool
	}{
		"never attached":                    {},
		"once healthy, detached":            {healthyAt: "t", want: true},
		"once healthy, RW in the engine":    {healthyAt: "t", engines: engine(longhornv1.ReplicaModeRW), want: true},
		"rebuilding":                        {healthyAt: "t", engines: engine(longhornv1.ReplicaModeWO)},
		"in error in the engine":            {healthyAt: "t", engines: engine(longhornv1.ReplicaModeERR)},
		"an engine that does not know it":   {healthyAt: "t", engines: []*longhornv1.Engine{{}}, want: true},
		"failed since":                      {healthyAt: "t", failedAt: "u"},
		"being deleted":                     {healthyAt: "t", deleted: &deleted},
		"RW in the engine, but not healthy": {engines: engine(longhornv1.ReplicaModeRW)},
	} {
		replica := &longhornv1.Replica{ObjectMeta: metav1.ObjectMeta{Name: "r", DeletionTimestamp: test.deleted}}
		replica.Spec.HealthyAt, replica.Spec.FailedAt = test.healthyAt, test.failedAt
		if got := healthy(replica, test.engines); got != test.want {
			t.Errorf("%s: healthy is %t, want %t", name, got, test.want)
		}
	}
}
