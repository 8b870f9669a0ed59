package operator

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
)

// HoldBefore keeps a node in a step that otherwise passes too fast to be met: the
// apiserver refuses the write by which it would show a phase, to whomever, until it is
// released.
func HoldBefore(t *testing.T, c *cluster.Cluster, node string, phase maintenance.Phase) (release func()) {
	t.Helper()
	expression := fmt.Sprintf("!object.status.conditions.exists(c, c.type == '%s' && c.reason == '%s')", maintenance.ConditionType, phase)
	probe := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"Unknown","reason":%q}]}}`, maintenance.ConditionType, phase)
	return c.Refuse(t, "nodes/status", node, expression, func(ctx context.Context) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(probe), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		return err
	})
}
