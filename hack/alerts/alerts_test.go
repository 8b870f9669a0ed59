package alerts

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

const (
	alertsFile  = "../../charts/drydock/files/alerts.yaml"
	runbookFile = "../../docs/runbook.md"
	runbookURL  = "https://github.com/drydock-dev/drydock/blob/main/docs/runbook.md#"
)

var language = parser.NewParser(parser.Options{})

// shipped are the chart's alerts by name.
func shipped(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(alertsFile, false, model.UTF8Validation, language, slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	found := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			found[rule.Alert] = rule
		}
	}
	return found
}

// story is what Prometheus sees, one value a minute, and which alerts fire after how many
// minutes.
type story struct {
	alert, name string
	series      []string
	// quiet is a minute at which nothing fires yet, fires one at which it does; 0 for none.
	quiet, fires int
	// says is in the summary of what fires; labels are what tells one alert from another.
	says   string
	labels map[string]string
}

var stories = []story{
	{
		alert: "DrydockMaintenanceTooLong", name: "a drain of two hours", quiet: 120, fires: 127, says: "Node w1 has been drained for 2h 7m", labels: map[string]string{"node": "w1"},
		series: []string{
			`drydock_node_drain_start_time_seconds{node="w1",pod="a"} 0x200`, `drydock_node_maintenance_phase{node="w1",phase="Draining",status="True",pod="a"} 1x60 _x140`,
			`drydock_node_drain_start_time_seconds{node="w1",pod="b"} 0x200`, `drydock_node_maintenance_phase{node="w1",phase="Evacuating",status="True",pod="b"} _x59 1x140`,
		},
	},
	{
		alert: "DrydockMaintenanceTooLong", name: "Completed for days", quiet: 300,
		series: []string{`drydock_node_drain_start_time_seconds{node="w1"} 0x400`, `drydock_node_maintenance_phase{node="w1",phase="Completed",status="True"} 1x400`},
	},
	{
		alert: "DrydockNodeError", name: "given up", quiet: 4, fires: 6, says: "was given up and the node is still cordoned", labels: map[string]string{"node": "w1", "status": "True"},
		series: []string{`drydock_node_maintenance_phase{node="w1",phase="Error",status="True",pod="a"} 1x20`, `drydock_node_maintenance_phase{node="w1",phase="Error",status="True",pod="b"} 1x20`},
	},
	{
		alert: "DrydockNodeError", name: "refused", quiet: 4, fires: 6, says: "Maintenance of node w1 was refused", labels: map[string]string{"node": "w1", "status": "False"},
		series: []string{`drydock_node_maintenance_phase{node="w1",phase="Error",status="False"} 1x20`},
	},
	{
		alert: "DrydockNodeError", name: "in maintenance", quiet: 19,
		series: []string{`drydock_node_maintenance_phase{node="w1",phase="Completed",status="True"} 1x20`},
	},
	{
		alert: "DrydockVMNotRestarted", name: "due, seen by one replica after the other", quiet: 9, fires: 11, says: "VM shop/db was stopped", labels: map[string]string{"namespace": "shop", "name": "db"},
		series: []string{`drydock_vm_start_due{namespace="shop",name="db",pod="a"} 1x6 _x20`, `drydock_vm_start_due{namespace="shop",name="db",pod="b"} _x5 1x20`},
	},
	{
		alert: "DrydockVMNotRestarted", name: "started in time", quiet: 19,
		series: []string{`drydock_vm_start_due{namespace="shop",name="db"} 1x3 stale _x20`},
	},
	{
		alert: "DrydockVMHeldWithoutMaintenance", name: "a marker of somebody else's", quiet: 29, fires: 31, says: "VM shop/db waits for node w1", labels: map[string]string{"namespace": "shop", "name": "db", "node": "w1"},
		series: []string{`drydock_vm_marker_orphaned{namespace="shop",name="db",node="w1"} 1x40`},
	},
	{
		alert: "DrydockWebhookFailing", name: "one of ten fails", quiet: 9, fires: 20, says: "10% of the reviews at /validate/nodes fail", labels: map[string]string{"path": "/validate/nodes"},
		series: []string{
			`drydock_webhook_request_duration_seconds_count{path="/validate/nodes",verdict="error",pod="a"} 0+6x40`, `drydock_webhook_request_duration_seconds_count{path="/validate/nodes",verdict="allowed",pod="b"} 0+54x40`,
			`drydock_webhook_request_duration_seconds_count{path="/mutate/nodes",verdict="allowed",pod="b"} 0+54x40`,
		},
	},
	{
		alert: "DrydockWebhookFailing", name: "refusals are no failures", quiet: 39,
		series: []string{`drydock_webhook_request_duration_seconds_count{path="/validate/nodes",verdict="denied"} 0+60x40`},
	},
	{
		alert: "DrydockWebhookNotReached", name: "the first call that fails, for ten minutes", fires: 21, quiet: 31, says: "did not reach the webhook nodes.mutate.drydock.dev", labels: map[string]string{"name": "nodes.mutate.drydock.dev"},
		series: []string{
			`up{job="apiserver",instance="a"} 1x60`, `up{job="apiserver",instance="b"} 1x60`,
			`apiserver_admission_webhook_fail_open_count{job="apiserver",instance="a",name="nodes.mutate.drydock.dev",type="admit"} _x20 1x40`,
			`apiserver_admission_webhook_fail_open_count{job="apiserver",instance="b",name="nodes.mutate.drydock.dev",type="admit"} 7x60`,
			`apiserver_admission_webhook_fail_open_count{job="apiserver",instance="b",name="somebody.else.s",type="admit"} 0+1x60`,
		},
	},
	{
		alert: "DrydockWebhookNotReached", name: "one more call that fails", quiet: 19, fires: 22, says: "did not reach the webhook nodes.validate.drydock.dev", labels: map[string]string{"name": "nodes.validate.drydock.dev"},
		series: []string{`apiserver_admission_webhook_fail_open_count{job="apiserver",instance="a",name="nodes.validate.drydock.dev",type="validating"} 3x20 4x40`},
	},
	{
		alert: "DrydockWebhookNotReached", name: "what the failure policy refuses", quiet: 19, fires: 21, says: "did not reach the webhook virtualmachines.validate.drydock.dev", labels: map[string]string{"name": "virtualmachines.validate.drydock.dev"},
		series: []string{
			`up{job="apiserver",instance="a"} 1x60`,
			`apiserver_admission_webhook_rejection_count{job="apiserver",instance="a",name="virtualmachines.validate.drydock.dev",type="validating",operation="CREATE",error_type="calling_webhook_error",rejection_code="500"} _x20 1x40`,
		},
	},
	{
		alert: "DrydockWebhookNotReached", name: "a Prometheus that is new, refusals, and somebody else's webhook", quiet: 3,
		series: []string{
			`up{job="apiserver",instance="a"} 1x60`,
			`apiserver_admission_webhook_fail_open_count{job="apiserver",instance="a",name="nodes.mutate.drydock.dev",type="admit"} 7x60`,
			`apiserver_admission_webhook_rejection_count{job="apiserver",instance="a",name="nodes.validate.drydock.dev",type="validating",operation="UPDATE",error_type="no_error",rejection_code="403"} 0+1x60`,
			`apiserver_admission_webhook_fail_open_count{job="apiserver",instance="a",name="somebody.else.s",type="admit"} 0+1x60`,
		},
	},
	{
		alert: "DrydockNoLeader", name: "three that follow", quiet: 1, fires: 4, says: "No replica", labels: map[string]string{},
		series: []string{`drydock_leader{pod="a"} 0x10`, `drydock_leader{pod="b"} 0x10`, `drydock_leader{pod="c"} 0x10`},
	},
	{alert: "DrydockNoLeader", name: "none at all", quiet: 1, fires: 4, says: "No replica", labels: map[string]string{}, series: []string{`up 1x10`}},
	{
		alert: "DrydockNoLeader", name: "a hand-over", quiet: 9,
		series: []string{`drydock_leader{pod="a"} 1 1 1 0 _x10`, `drydock_leader{pod="b"} 0 0 0 0 1x10`},
	},
	{alert: "DrydockIdle", name: "idle for an hour", quiet: 59, fires: 61, says: "Drydock is idle", labels: map[string]string{}, series: []string{`drydock_idle{pod="a"} 1x80`, `drydock_idle{pod="b"} 0x80`}},
	{
		alert: "DrydockRequestsReachHarvester", name: "one of two replicas is not trusted", quiet: 4, fires: 6, says: "Requests for maintenance reach Harvester", labels: map[string]string{},
		series: []string{`drydock_requests_reach_harvester{pod="a"} 0x10`, `drydock_requests_reach_harvester{pod="b"} 1x10`},
	},
	{alert: "DrydockRequestsReachHarvester", name: "an installation that begins", quiet: 9, series: []string{`drydock_requests_reach_harvester 1x2 0x10`}},
	{
		alert: "DrydockCertificateExpiring", name: "a week left", quiet: 14, fires: 30, says: "The certificate serving of Drydock ends in 6d", labels: map[string]string{"certificate": "serving"},
		series: []string{`drydock_certificate_expiry_timestamp_seconds{certificate="serving",pod="a"} 604000x40`, `drydock_certificate_expiry_timestamp_seconds{certificate="serving",pod="b"} 9000000x40`},
	},
	{
		alert: "DrydockCertificateExpiring", name: "a month left", quiet: 39,
		series: []string{`drydock_certificate_expiry_timestamp_seconds{certificate="serving"} 2600000x40`},
	},
}

func TestAlertsFireWhenTheyShouldAndNotBefore(t *testing.T) {
	alerts := shipped(t)
	told := map[string]bool{}
	for _, s := range stories {
		t.Run(s.alert+"/"+s.name, func(t *testing.T) {
			rule, ok := alerts[s.alert]
			if !ok {
				t.Fatal("there is no such alert")
			}
			s.run(t, rule)
		})
		if s.fires > 0 {
			told[s.alert] = true
		}
	}
	for name := range alerts {
		if !told[name] {
			t.Errorf("no story makes %s fire", name)
		}
	}
}

// run evaluates the alert every minute, as Prometheus does.
func (s *story) run(t *testing.T, shipped rulefmt.Rule) {
	expr, err := language.ParseExpr(shipped.Expr)
	if err != nil {
		t.Fatal(err)
	}
	rule := rules.NewAlertingRule(shipped.Alert, expr, time.Duration(shipped.For), time.Duration(shipped.KeepFiringFor),
		labels.FromMap(shipped.Labels), labels.FromMap(shipped.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
	storage := promqltest.LoadedStorage(t, "load 1m\n  "+strings.Join(s.series, "\n  "))
	query := rules.EngineQueryFunc(promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery), storage)
	for minute := 0; minute <= max(s.quiet, s.fires); minute++ {
		if _, err := rule.Eval(t.Context(), 0, time.Unix(0, 0).Add(time.Duration(minute)*time.Minute), query, nil, 0); err != nil {
			t.Fatal(err)
		}
		firing := s.firing(rule)
		if minute == s.quiet && len(firing) > 0 {
			t.Errorf("after %d minutes it fires: %v", minute, firing)
		}
		if s.fires > 0 && minute == s.fires {
			s.check(t, firing)
		}
	}
}

func (s *story) firing(rule *rules.AlertingRule) []*rules.Alert {
	return slices.DeleteFunc(rule.ActiveAlerts(), func(a *rules.Alert) bool { return a.State != rules.StateFiring })
}

func (s *story) check(t *testing.T, firing []*rules.Alert) {
	t.Helper()
	if len(firing) != 1 {
		t.Fatalf("after %d minutes %d alerts fire, want one: %v", s.fires, len(firing), firing)
	}
	if summary := firing[0].Annotations.Get("summary"); !strings.Contains(summary, s.says) {
		t.Errorf("it says %q, want %q", summary, s.says)
	}
	got := firing[0].Labels.Map()
	for _, fixed := range []string{labels.AlertName, "severity"} {
		if got[fixed] == "" {
			t.Errorf("the label %s is missing", fixed)
		}
		delete(got, fixed)
	}
	if fmt.Sprint(got) != fmt.Sprint(s.labels) {
		t.Errorf("its labels are %v, want %v", got, s.labels)
	}
}

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

func TestEachAlertHasItsChapterInTheRunbook(t *testing.T) {
	page, err := os.ReadFile(runbookFile)
	if err != nil {
		t.Fatal(err)
	}
	var anchors []string
	for _, found := range heading.FindAllStringSubmatch(string(page), -1) {
		anchors = append(anchors, strings.ToLower(found[1]))
	}
	for name, rule := range shipped(t) {
		anchor, ok := strings.CutPrefix(rule.Annotations["runbook_url"], runbookURL)
		if !ok || !slices.Contains(anchors, anchor) {
			t.Errorf("%s: %s leads nowhere", name, rule.Annotations["runbook_url"])
		}
		for _, annotation := range []string{"summary", "description"} {
			if rule.Annotations[annotation] == "" {
				t.Errorf("%s has no %s", name, annotation)
			}
		}
	}
}
