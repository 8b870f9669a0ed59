package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// State is metadata.state: what a list shows of an object in a word and a sentence.
type State struct {
	Name          string `json:"name"`
	Error         bool   `json:"error"`
	Transitioning bool   `json:"transitioning"`
	Message       string `json:"message"`
}

// nodeState sums a node up. Its message is that of the maintenance condition, which a
// front-end shows under the node; that of a node that is not Ready comes first.
func nodeState(node *corev1.Node) State {
	state := State{Name: "active"}
	if node.DeletionTimestamp != nil {
		state = State{Name: "removing", Transitioning: true}
	}
	if c := maintenance.Condition(node); c != nil {
		state.Message = c.Message
		switch phase := maintenance.Phase(c.Reason); phase {
		case maintenance.PhaseValidating, maintenance.PhaseDraining, maintenance.PhaseEvacuating:
			state.Name, state.Transitioning = strings.ToLower(string(phase)), true
		case maintenance.PhaseCompleted:
			state.Name = "maintenance"
		case maintenance.PhaseError:
			state.Error = true
			if c.Status == corev1.ConditionTrue {
				state.Name = "error"
			}
		case maintenance.PhaseNone:
		}
	}
	if ready := maintenance.NodeCondition(node, corev1.NodeReady); ready == nil || ready.Status != corev1.ConditionTrue {
		state.Name, state.Error = "not-ready", true
		message := "the node has never reported its state"
		if ready != nil {
			message = ready.Message
		}
		state.Message = strings.TrimSuffix(message+"; "+state.Message, "; ")
	}
	return state
}

const rolePrefix = "node-role.kubernetes.io/"

// nodeFields are the columns of `kubectl get nodes -o wide`. The age is given as the time
// of creation, since what is sent is kept and would grow old.
func nodeFields(node *corev1.Node) []any {
	status := "NotReady"
	if ready := maintenance.NodeCondition(node, corev1.NodeReady); ready == nil {
		status = "Unknown"
	} else if ready.Status == corev1.ConditionTrue {
		status = "Ready"
	}
	if node.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	var roles []string
	for label := range node.Labels {
		if role, ok := strings.CutPrefix(label, rolePrefix); ok && role != "" {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	info := &node.Status.NodeInfo
	return []any{
		node.Name, status, orNone(strings.Join(roles, ",")), node.CreationTimestamp.UTC().Format(time.RFC3339), info.KubeletVersion,
		address(node, corev1.NodeInternalIP), address(node, corev1.NodeExternalIP),
		orNone(info.OSImage), orNone(info.KernelVersion), orNone(info.ContainerRuntimeVersion),
	}
}

func address(node *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range node.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return "<none>"
}

func orNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}

// Revision reads a resourceVersion as the number that it is in every Kubernetes API server;
// 0 for what is none.
func Revision(version string) uint64 {
	var n uint64
	if _, err := fmt.Sscanf(version, "%d", &n); err != nil {
		return 0
	}
	return n
}
