package process

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
)

// scraped is a page of metrics: what is before the last blank of a line, by value.
type scraped map[string]float64

func scrape(t *testing.T, m *manager.Manager) scraped {
	t.Helper()
	_, page := m.Get(t, "metrics", "/metrics")
	found := scraped{}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndexByte(line, ' '); at > 0 && !strings.HasPrefix(line, "#") {
			if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
				found[line[:at]] = value
			}
		}
	}
	return found
}

// naming are the series with a label of that value.
func (s scraped) naming(value string) []string {
	var names []string
	for name := range s {
		if strings.Contains(name, strconv.Quote(value)) {
			names = append(names, name)
		}
	}
	return names
}

// await waits until the figures are as wanted, by difference to what they were.
func (s scraped) await(t *testing.T, c *cluster.Cluster, m *manager.Manager, want map[string]float64) {
	t.Helper()
	c.Eventually(t, "the metrics are as they should be", func(context.Context) error {
		now := scrape(t, m)
		for name, value := range want {
			if got := now[name] - s[name]; got != value {
				return fmt.Errorf("%s grew by %v, want %v", name, got, value)
			}
		}
		return nil
	})
}

// The figures after a real maintenance with a VM of each kind, and none of a node that
// is gone.
func TestMetricsTellAMaintenance(t *testing.T) {
	c := cluster.For(t)
	m := manager.Start(t, c.Kubeconfig(t, "drydock"))
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	operator.Create(t,
		operator.Movable(c, ns, "moves", pool), operator.Movable(c, ns, "also", pool).EvictionStrategy(virtv1.EvictionStrategyNone),
		operator.Movable(c, ns, "off", pool).Strategy("Shutdown"), operator.Movable(c, ns, "later", pool).Strategy("ShutdownAndRestartAfterDisable"),
		operator.Movable(c, ns, "soon", pool).Strategy("ShutdownAndRestartAfterEnable"))
	operator.Create(t, operator.Movable(c, ns, "stuck", pool).Annotate("sim.drydock.dev/not-live-migratable", "HostDeviceNotLiveMigratable: it has a GPU"))
	before := scrape(t, m)

	operator.Request(t, c, host)
	operator.AwaitMessage(t, c, host, "refused", ns+"/stuck")
	series := fmt.Sprintf
	before.await(t, c, m, map[string]float64{
		`drydock_maintenance_requests_total{outcome="refused"}`:                              1,
		`drydock_maintenance_requests_refused_total{check="VirtualMachines"}`:                1,
		series(`drydock_node_maintenance_phase{node=%q,phase="Error",status="False"}`, host): 1,
	})

	operator.Relabel(t, c, ns, "stuck", "Shutdown")
	operator.Request(t, c, host)
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	before.await(t, c, m, map[string]float64{
		`drydock_maintenance_requests_total{outcome="admitted"}`:                                1,
		`drydock_drain_duration_seconds_count{outcome="completed"}`:                             1,
		`drydock_phase_duration_seconds_count{phase="Draining"}`:                                1,
		`drydock_phase_duration_seconds_count{phase="Evacuating"}`:                              1,
		`drydock_evictions_total{code="429",kind="launcher"}`:                                   1,
		`drydock_migration_duration_seconds_count{means="Eviction",outcome="succeeded"}`:        1,
		`drydock_vms_handled_total{outcome="moved",verdict="Move"}`:                             1,
		`drydock_vm_stop_duration_seconds_count{restart="AfterDisable"}`:                        1,
		`drydock_vm_stop_duration_seconds_count{restart="Never"}`:                               2,
		`drydock_vm_stop_duration_seconds_count{restart="AfterEnable"}`:                         2,
		`drydock_vms_handled_total{outcome="started",verdict="StopRestartAfterEnable"}`:         2,
		series(`drydock_node_maintenance_phase{node=%q,phase="Completed",status="True"}`, host): 1,
		series(`drydock_node_maintenance_phase{node=%q,phase="Error",status="False"}`, host):    0,
		series(`drydock_vms_stopped{node=%q,restart="AfterDisable"}`, host):                     1,
		series(`drydock_vms_stopped{node=%q,restart="Never"}`, host):                            2,
	})

	operator.Leave(t, c, host)
	operator.AwaitOut(t, c, host)
	operator.AwaitForgotten(t, c, ns, "later")
	before.await(t, c, m, map[string]float64{
		`drydock_vms_handled_total{outcome="started",verdict="StopRestartAfterDisable"}`: 1,
		`drydock_vms_handled_total{outcome="stays_off",verdict="StopStayOff"}`:           2,
		`drydock_phase_duration_seconds_count{phase="Completed"}`:                        1,
		`drydock_drain_duration_seconds_count{outcome="left"}`:                           0,
	})
	var after scraped
	c.Eventually(t, "nothing names what is out of maintenance", func(context.Context) error {
		after = scrape(t, m)
		if names := append(after.naming(host), after.naming(ns)...); len(names) > 0 {
			return fmt.Errorf("there are %v", names)
		}
		return nil
	})
	if after[`drydock_leader`] != 1 || after[`drydock_cache_synced{resource="virtualmachines"}`] != 1 {
		t.Error("it neither leads nor has its caches filled")
	}
	if after[`drydock_apiserver_request_duration_seconds_count{resource="nodes/status",verb="patch"}`] == 0 || after[`drydock_apiserver_requests_total{code="200",method="PATCH"}`] == 0 {
		t.Error("no request to the API server is counted")
	}
	if len(after) > 1500 {
		t.Errorf("%d series of one node and a few VMs", len(after))
	}
}
