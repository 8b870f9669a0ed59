package e2e

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
)

// The apiserver holds a node in a step that otherwise passes too fast to be met: it
// refuses the write that would end the step, to whomever, until it is released.

// holdBefore keeps a node from showing a phase.
func holdBefore(t *testing.T, c *cluster.Cluster, node string, phase maintenance.Phase) (release func()) {
	t.Helper()
	expression := fmt.Sprintf("!object.status.conditions.exists(c, c.type == '%s' && c.reason == '%s')", maintenance.ConditionType, phase)
	probe := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"Unknown","reason":%q}]}}`, maintenance.ConditionType, phase)
	return c.Refuse(t, "nodes/status", node, expression, func(ctx context.Context) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(probe), dryRun, "status")
		return err
	})
}

var dryRun = metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
