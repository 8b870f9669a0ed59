package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

const stays = "sim.drydock.dev/not-live-migratable"

// unhealthy asks what keeps an unforced request from being accepted.
func (c *caller) unhealthy(t *testing.T, node string) string {
	t.Helper()
	a := c.act(t, node, "listUnhealthyVM", "")
	a.want(t, http.StatusOK)
	var groups []struct {
		Message string
		VMs     []string
	}
	if err := json.Unmarshal([]byte(a.body), &groups); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	var lines []string
	for _, g := range groups {
		slices.Sort(g.VMs)
		lines = append(lines, g.Message+": "+strings.Join(g.VMs, ", "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// The dialog of Harvester's front-end, in the order of its calls, and what its list shows
// meanwhile.
func TestTheDialogOfTheHostsPage(t *testing.T) {
	t.Parallel()
	h := serving(t)
	ns, pool := h.Namespace(t), h.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t,
		operator.Movable(h.Cluster, ns, "device", pool).Annotate(stays, "HostDeviceNotLiveMigratable: a device"),
		operator.Movable(h.Cluster, ns, "other", pool).Annotate(stays, "HostDeviceNotLiveMigratable: a device"),
		operator.Movable(h.Cluster, ns, "healthy", pool),
		operator.Movable(h.Cluster, ns, "stops", pool).Strategy("Shutdown").Annotate(stays, "HostDeviceNotLiveMigratable: a device"))
	c := h.account(t, viewNodes, updateNodes)
	show := func() string { return fmt.Sprint(c.node(t, host).Metadata.Annotations[maintenance.AnnotationStatus]) }

	// Without force: the list is not empty, and the dialog stops.
	c.act(t, host, "maintenancePossible", "").want(t, http.StatusNoContent)
	if got, want := c.unhealthy(t, host), fmt.Sprintf("cannot be live-migrated: HostDeviceNotLiveMigratable: a device: %s/device, %s/other", ns, ns); got != want {
		t.Errorf("unhealthy are %q, want %q", got, want)
	}
	// Whoever goes on is refused by the pre-checks, and nothing is written.
	c.act(t, host, "enableMaintenanceMode", `{"force":"false"}`).want(t, http.StatusConflict, "VM "+ns+"/device cannot be live-migrated", "kubectl label vm -n "+ns)
	if show() != "" {
		t.Errorf("refused, and the node shows %s", show())
	}
	// With force.
	c.act(t, host, "maintenancePossible", "").want(t, http.StatusNoContent)
	c.act(t, host, "enableMaintenanceMode", `{"force":"true"}`).want(t, http.StatusNoContent)
	done := operator.AwaitPhase(t, h.Cluster, host, maintenance.PhaseCompleted)
	if record := operator.RecordOf(t, done); record.RequestedBy != c.name || !record.Forced {
		t.Errorf("the record is %+v, asked for by %s", record, c.name)
	}
	operator.AwaitEvent(t, h.Cluster, "Node", "", host, "MaintenanceRequested", c.name)
	h.Eventually(t, "the list shows it", func(context.Context) error {
		if show() != maintenance.StatusCompleted {
			return fmt.Errorf("it shows %q", show())
		}
		return nil
	})
	for action, want := range map[string]bool{"disableMaintenanceMode": true, "powerAction": true, "uncordon": true, "enableMaintenanceMode": false, "cordon": false} {
		if _, offered := c.node(t, host).Actions[action]; offered != want {
			t.Errorf("%s is offered: %t", action, offered)
		}
	}
	c.act(t, host, "disableMaintenanceMode", "{}").want(t, http.StatusNoContent)
	operator.AwaitOut(t, h.Cluster, host)
	c.act(t, host, "disableMaintenanceMode", "{}").want(t, http.StatusNoContent)
}

// Leaving succeeds in every phase, also twice.
func TestLeavingInEveryPhase(t *testing.T) {
	t.Parallel()
	h := serving(t)
	c := h.account(t, viewNodes, updateNodes)
	for name, prepare := range map[string]func(t *testing.T, ns, host string, pool *cluster.Pool){
		"never asked": func(*testing.T, string, string, *cluster.Pool) {},
		"asked a moment ago": func(t *testing.T, _, host string, _ *cluster.Pool) {
			c.act(t, host, "enableMaintenanceMode", "").want(t, http.StatusNoContent)
		},
		"draining": func(t *testing.T, ns, host string, pool *cluster.Pool) {
			operator.Create(t, operator.Movable(h.Cluster, ns, "slow", pool).Annotate("sim.drydock.dev/migration-seconds", "never"))
			c.act(t, host, "enableMaintenanceMode", "").want(t, http.StatusNoContent)
			h.AwaitNode(t, host, "engaged", func(n *corev1.Node) bool {
				return n.Annotations[maintenance.AnnotationStatus] == maintenance.StatusRunning
			})
		},
		"completed": func(t *testing.T, _, host string, _ *cluster.Pool) {
			c.act(t, host, "enableMaintenanceMode", "").want(t, http.StatusNoContent)
			operator.AwaitPhase(t, h.Cluster, host, maintenance.PhaseCompleted)
		},
		"uncordoned by hand": func(t *testing.T, ns, host string, pool *cluster.Pool) {
			operator.Create(t, operator.Movable(h.Cluster, ns, "slow", pool).Annotate("sim.drydock.dev/migration-seconds", "never"))
			c.act(t, host, "enableMaintenanceMode", "").want(t, http.StatusNoContent)
			h.AwaitNode(t, host, "cordoned", func(n *corev1.Node) bool { return n.Spec.Unschedulable })
			c.act(t, host, "uncordon", "{}").want(t, http.StatusNoContent)
			operator.AwaitMessage(t, h.Cluster, host, "uncordoned by somebody else")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := serving(t)
			ns, pool := h.Namespace(t), h.Pool(t, 2)
			prepare(t, ns, pool.Host(0), pool)
			for range 2 {
				c.act(t, pool.Host(0), "disableMaintenanceMode", "{}").want(t, http.StatusNoContent)
			}
			if node := operator.AwaitOut(t, h.Cluster, pool.Host(0)); node.Spec.Unschedulable {
				t.Error("the node is still cordoned")
			}
		})
	}
}

// Cases 11, 12 and 20: whoever asks, and however, is refused in the same words.
func TestARefusalIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	h := serving(t)
	ns, pool := h.Namespace(t), h.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t,
		operator.Movable(h.Cluster, ns, "device", pool).Annotate(stays, "HostDeviceNotLiveMigratable: a device"),
		operator.Movable(h.Cluster, ns, "selector", pool).Change(func(vm *virtv1.VirtualMachine) {
			vm.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: host}
		}))
	c := h.account(t, viewNodes, updateNodes)
	refusal := c.act(t, host, "enableMaintenanceMode", `{"force":false}`)
	refusal.want(t, http.StatusConflict, "VM "+ns+"/device", "VM "+ns+"/selector")
	var outlook struct{ Unforced, Forced struct{ Refusal string } }
	plan := c.act(t, host, "maintenancePlan", "")
	if err := json.Unmarshal([]byte(plan.body), &outlook); err != nil || outlook.Unforced.Refusal != refusal.body || outlook.Forced.Refusal != "" {
		t.Errorf("the plan says %+v, %v, want %q", outlook, err, refusal.body)
	}
	operator.Request(t, h.Cluster, host)
	operator.AwaitMessage(t, h.Cluster, host, "refused: "+refusal.body)
	h.Eventually(t, "dismissing is offered", func(context.Context) error {
		if c.node(t, host).Actions["clearMaintenanceMode"] == "" {
			return errors.New("it is not")
		}
		return nil
	})
	c.act(t, host, "clearMaintenanceMode", "{}").want(t, http.StatusNoContent)
	operator.AwaitOut(t, h.Cluster, host)
}

// The nodes alone decide here, so that the webhook refuses as well. One test, since it
// needs the cluster's control planes.
func TestQuorumIsTheSameEverywhere(t *testing.T) {
	h := serving(t)
	c := h.account(t, viewNodes, updateNodes)
	c.act(t, "cp1", "enableMaintenanceMode", "{}").want(t, http.StatusNoContent)
	defer func() {
		c.act(t, "cp1", "disableMaintenanceMode", "{}").want(t, http.StatusNoContent)
		operator.AwaitOut(t, h.Cluster, "cp1")
	}()
	operator.AwaitPhase(t, h.Cluster, "cp1", maintenance.PhaseCompleted)
	possible := c.act(t, "cp2", "maintenancePossible", "")
	possible.want(t, http.StatusConflict, "quorum", "cp1 (in maintenance)")
	for _, force := range []string{"true", "false"} {
		if enable := c.act(t, "cp2", "enableMaintenanceMode", `{"force":"`+force+`"}`); enable.body != possible.body {
			t.Errorf("force %s: %q, want %q", force, enable.body, possible.body)
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{maintenance.AnnotationRequested: "true"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Kube.CoreV1().Nodes().Patch(t.Context(), "cp2", types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || !strings.Contains(err.Error(), possible.body) {
		t.Errorf("the webhook says %v, want %q", err, possible.body)
	}
}
