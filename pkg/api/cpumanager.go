package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// cpuManager asks Harvester's own controller, where there is one, for a policy of kubelet's
// CPU manager.
func (s *server) cpuManager(ctx context.Context, c *call, policy string) (any, error) {
	var current struct {
		Status string `json:"status"`
		Policy string `json:"policy"`
	}
	// What cannot be read is nothing to wait for.
	_ = json.Unmarshal([]byte(c.node.Annotations[maintenance.AnnotationCPUManager]), &current)
	if current.Status == "requested" || current.Status == "running" {
		return nil, problemf(http.StatusConflict, "node %s: the change of its CPU manager's policy to %q is %s", c.node.Name, current.Policy, current.Status)
	}
	current.Status, current.Policy = "requested", policy
	value, err := json.Marshal(current)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", maintenance.AnnotationCPUManager, err)
	}
	return nil, s.write(ctx, c.node, intent{annotations: map[string]any{maintenance.AnnotationCPUManager: string(value)}})
}

func (s *server) enableCPUManager(ctx context.Context, c *call) (any, error) {
	return s.cpuManager(ctx, c, "static")
}

func (s *server) disableCPUManager(ctx context.Context, c *call) (any, error) {
	return s.cpuManager(ctx, c, "none")
}
