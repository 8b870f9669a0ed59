package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

const nodes = "/v1/harvester/nodes/"

var (
	completed = []func(*corev1.Node){annotated(maintenance.AnnotationStatus, "completed"), annotated(maintenance.AnnotationNodeRecord, `{"id":"m"}`), shows(maintenance.PhaseCompleted, corev1.ConditionTrue, "done"), unschedulable}
	leaving   = []func(*corev1.Node){annotated(maintenance.AnnotationNodeRecord, `{"id":"m"}`), shows(maintenance.PhaseDraining, corev1.ConditionTrue, "leaving")}
	foreign   = []func(*corev1.Node){annotated(maintenance.AnnotationStatus, "running"), unschedulable}
	said      = []func(*corev1.Node){shows(maintenance.PhaseError, corev1.ConditionFalse, "refused: no")}
)

func TestWhatAnActionWrites(t *testing.T) {
	t.Parallel()
	const asked = "drydock.dev/requested-by=editor"
	for name, c := range map[string]struct {
		node   []func(*corev1.Node)
		action string
		body   string
		status int
		writes string
		says   string
	}{
		"enable, forced by a string":    {action: "enableMaintenanceMode", body: `{"force":"true"}`, status: 204, writes: asked + " harvesterhci.io/drain-forced=true harvesterhci.io/drain-requested=true"},
		"enable, forced by a boolean":   {action: "enableMaintenanceMode", body: `{"force":true}`, status: 204, writes: asked + " harvesterhci.io/drain-forced=true harvesterhci.io/drain-requested=true"},
		"enable takes old force away":   {node: []func(*corev1.Node){annotated(maintenance.AnnotationForced, "true")}, action: "enableMaintenanceMode", body: `{"force":"false"}`, status: 204, writes: asked + " harvesterhci.io/drain-forced- harvesterhci.io/drain-requested=true"},
		"enable without a body":         {action: "enableMaintenanceMode", status: 204, writes: asked + " harvesterhci.io/drain-forced- harvesterhci.io/drain-requested=true"},
		"enable in maintenance":         {node: completed, action: "enableMaintenanceMode", body: `{"force":"true"}`, status: 204, writes: asked + " harvesterhci.io/drain-forced=true harvesterhci.io/drain-requested=true"},
		"enable while leaving":          {node: leaving, action: "enableMaintenanceMode", status: 409, says: "leaving maintenance"},
		"enable by another's hand":      {node: foreign, action: "enableMaintenanceMode", status: 409, says: "another tool's hand"},
		"disable":                       {node: completed, action: "disableMaintenanceMode", body: "{}", status: 204, writes: "drydock.dev/drain-forced- drydock.dev/drain-requested- drydock.dev/requested-by- harvesterhci.io/drain-forced- harvesterhci.io/drain-requested- harvesterhci.io/maintain-status-"},
		"disable takes a request back":  {node: []func(*corev1.Node){annotated(maintenance.AnnotationRequested, "true")}, action: "disableMaintenanceMode", status: 204, writes: "drydock.dev/drain-forced- drydock.dev/drain-requested- drydock.dev/requested-by- harvesterhci.io/drain-forced- harvesterhci.io/drain-requested- harvesterhci.io/maintain-status-"},
		"disable where nothing is":      {action: "disableMaintenanceMode", status: 204},
		"disable what another has left": {node: foreign, action: "disableMaintenanceMode", status: 204, writes: "drydock.dev/drain-forced- drydock.dev/drain-requested- drydock.dev/requested-by- harvesterhci.io/drain-forced- harvesterhci.io/drain-requested- harvesterhci.io/maintain-status- map[unschedulable:false]"},
		"clear":                         {node: said, action: "clearMaintenanceMode", status: 204, writes: "drydock.dev/clear-maintenance=true"},
		"clear where nothing is":        {action: "clearMaintenanceMode", status: 204},
		"clear in maintenance":          {node: completed, action: "clearMaintenanceMode", status: 409, says: "disableMaintenanceMode"},
		"cordon":                        {action: "cordon", body: "{}", status: 204, writes: "map[unschedulable:true]"},
		"cordon again":                  {node: []func(*corev1.Node){unschedulable}, action: "cordon", status: 409, says: "cordoned already"},
		"uncordon":                      {node: []func(*corev1.Node){unschedulable}, action: "uncordon", status: 204, writes: "map[unschedulable:false]"},
		"uncordon again":                {action: "uncordon", status: 409, says: "not cordoned"},
		"CPU manager on":                {action: "enableCPUManager", body: "{}", status: 204, writes: `harvesterhci.io/cpu-manager-update-status={"status":"requested","policy":"static"}`},
		"CPU manager off":               {action: "disableCPUManager", body: "{}", status: 204, writes: `harvesterhci.io/cpu-manager-update-status={"status":"requested","policy":"none"}`},
		"CPU manager changes already":   {node: []func(*corev1.Node){annotated(maintenance.AnnotationCPUManager, `{"status":"running","policy":"static"}`)}, action: "disableCPUManager", status: 409, says: `"static" is running`},
		"possible":                      {action: "maintenancePossible", status: 204},
		"possible in maintenance":       {node: completed, action: "maintenancePossible", status: 204},
		"nobody is unhealthy":           {action: "listUnhealthyVM", status: 200, says: "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, h := newWorld(t, node("w1", c.node...), node("w2"), node("w3"))
			response, text := ask(t, h, "editor", http.MethodPost, nodes+"w1?action="+c.action, c.body)
			if response.StatusCode != c.status || !strings.Contains(text, c.says) {
				t.Errorf("answered %d %q, want %d and %q", response.StatusCode, text, c.status, c.says)
			}
			if got := w.written(); got != c.writes {
				t.Errorf("wrote %q, want %q", got, c.writes)
			}
		})
	}
}

func TestARefusalIsTheSentenceOfThePlan(t *testing.T) {
	t.Parallel()
	w, h := newWorld(t, node("w1"))
	for _, action := range []string{"maintenancePossible", "enableMaintenanceMode", "cordon"} {
		response, text := ask(t, h, "editor", http.MethodPost, nodes+"w1?action="+action, "")
		findings, err := plan.CheckCordon(&plan.Snapshot{Name: "w1", Node: node("w1"), Nodes: []*corev1.Node{node("w1")}})
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusConflict || text != plan.Refusal(findings) || text == "" {
			t.Errorf("%s: answered %d %q, want 409 %q", action, response.StatusCode, text, plan.Refusal(findings))
		}
		if got := response.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
			t.Errorf("%s: a refusal is %s", action, got)
		}
	}
	if len(w.patches) > 0 {
		t.Errorf("refused, but written: %s", w.written())
	}
}

func TestNothingIsAllowedThatNobodyHasLookedAt(t *testing.T) {
	t.Parallel()
	w, h := newWorld(t, node("w1"), node("w2"))
	w.pending = "Longhorn's volumes are"
	response, text := ask(t, h, "editor", http.MethodPost, nodes+"w1?action=enableMaintenanceMode", "")
	if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "Longhorn's volumes") || response.Header.Get("Retry-After") == "" {
		t.Errorf("answered %d %q", response.StatusCode, text)
	}
	w.pending, w.idle = "", "Harvester's own controllers serve requests"
	if response, text := ask(t, h, "editor", http.MethodPost, nodes+"w1?action=enableMaintenanceMode", ""); response.StatusCode != http.StatusConflict || text != w.idle {
		t.Errorf("idle: answered %d %q", response.StatusCode, text)
	}
}

// A watch that is a moment behind is no news for a front-end.
func TestAWatchThatIsBehindIsWaitedFor(t *testing.T) {
	t.Parallel()
	w, h := newWorld(t, node("w1"), node("w2"))
	w.late = 1
	if response, text := ask(t, h, "editor", http.MethodPost, nodes+"w1?action=enableMaintenanceMode", ""); response.StatusCode != http.StatusNoContent || len(w.patches) != 1 {
		t.Errorf("answered %d %q, and wrote %s", response.StatusCode, text, w.written())
	}
	w.late = 1000
	if response, text := ask(t, h, "editor", http.MethodPost, nodes+"w1?action=enableMaintenanceMode", ""); response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "VMI ns/a") || len(w.patches) != 1 {
		t.Errorf("answered %d %q, and wrote %s", response.StatusCode, text, w.written())
	}
}

// While Drydock is idle a node that it has not engaged is Harvester's: only Harvester's own
// Disable starts the VMs that it has stopped.
func TestWhileIdleHarvestersMaintenanceIsItsOwn(t *testing.T) {
	t.Parallel()
	const (
		idle = "idle: Harvester's own controllers run here"
		left = "drydock.dev/drain-forced- drydock.dev/drain-requested- drydock.dev/requested-by- harvesterhci.io/drain-forced- harvesterhci.io/drain-requested- harvesterhci.io/maintain-status-"
	)
	for name, c := range map[string]struct {
		node         []func(*corev1.Node)
		status       int
		says, writes string
	}{
		"draining":                    {node: foreign, status: 409, says: "Harvester's own maintenance"},
		"completed":                   {node: []func(*corev1.Node){annotated(maintenance.AnnotationStatus, "completed"), unschedulable}, status: 409, says: "disable it there"},
		"asked for":                   {node: []func(*corev1.Node){annotated(maintenance.AnnotationRequested, "true")}, status: 409, says: "Harvester's own maintenance"},
		"engaged by Drydock":          {node: completed, status: 204, writes: left},
		"asked for in Drydock's word": {node: []func(*corev1.Node){annotated(maintenance.AnnotationRenamedRequested, "true")}, status: 204, writes: left},
		"not in maintenance":          {status: 204},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, h := newWorld(t, node("w1", c.node...))
			w.idle = idle
			response, text := ask(t, h, "editor", http.MethodPost, nodes+"w1?action=disableMaintenanceMode", "{}")
			if response.StatusCode != c.status || !strings.Contains(text, c.says) || (c.status == 409 && !strings.Contains(text, idle)) {
				t.Errorf("answered %d %q, want %d and %q", response.StatusCode, text, c.status, c.says)
			}
			if got := w.written(); got != c.writes {
				t.Errorf("wrote %q, want %q", got, c.writes)
			}
		})
	}
}

// What the condition says is worth nothing while nobody follows the node.
func TestWhosePowerMayBeSwitched(t *testing.T) {
	t.Parallel()
	const idle = "idle: Harvester's own controllers run here"
	off := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
	left := []func(*corev1.Node){annotated(maintenance.AnnotationNodeRecord, `{"id":"m"}`), shows(maintenance.PhaseCompleted, corev1.ConditionTrue, "done")}
	for name, c := range map[string]struct {
		node []func(*corev1.Node)
		idle string
		says string
	}{
		"completed":                       {node: completed},
		"not in maintenance":              {says: "not in maintenance"},
		"draining":                        {node: []func(*corev1.Node){shows(maintenance.PhaseDraining, corev1.ConditionTrue, "")}, says: "in maintenance phase Draining"},
		"completed, and being left":       {node: left, says: "leaving maintenance"},
		"off":                             {node: []func(*corev1.Node){off}},
		"off, while idle":                 {node: []func(*corev1.Node){off}, idle: idle},
		"completed, while idle":           {node: completed, idle: idle, says: "nobody has looked"},
		"completed by Harvester":          {node: []func(*corev1.Node){annotated(maintenance.AnnotationStatus, "completed")}, idle: idle, says: "switch its power there"},
		"not in maintenance, while idle":  {idle: idle, says: "not in maintenance"},
		"left by Harvester's own handler": {node: left, idle: idle, says: "leaving maintenance"},
	} {
		s := &server{Config: Config{Words: maintenance.Plain, Idle: func() string { return c.idle }}}
		err := s.switchable(node("w1", c.node...))
		if (err == nil) != (c.says == "") || (err != nil && !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestAWriteIsTriedAgain(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "nodes"}
	w, h := newWorld(t, node("w1", completed...))
	w.errors = []error{apierrors.NewConflict(resource, "w1", errors.New("changed")), apierrors.NewInternalError(errors.New("etcd")), apierrors.NewTooManyRequests("busy", 1)}
	if response, text := ask(t, h, "editor", http.MethodPost, nodes+"w1?action=disableMaintenanceMode", "{}"); response.StatusCode != http.StatusNoContent {
		t.Errorf("answered %d %q", response.StatusCode, text)
	}
	w.errors = []error{apierrors.NewForbidden(resource, "w1", errors.New("admission webhook denied the request: no"))}
	if response, text := ask(t, h, "editor", http.MethodPost, nodes+"w1?action=disableMaintenanceMode", "{}"); response.StatusCode != http.StatusConflict || !strings.Contains(text, "denied the request: no") {
		t.Errorf("a webhook's refusal is answered with %d %q", response.StatusCode, text)
	}
}

func TestVMsThatBlockAreGroupedByReason(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(unhealthy([]plan.Fate{
		{Namespace: "a", Name: "1", Verdict: plan.Block, Message: "cannot be live-migrated: x"},
		{Namespace: "a", Name: "2", Verdict: plan.Move},
		{Namespace: "a", Name: "3", Verdict: plan.Block, Message: "no other node"},
		{Namespace: "b", Name: "4", Verdict: plan.Block, Message: "cannot be live-migrated: x"},
		{Namespace: "b", Name: "5", Verdict: plan.StopStayOff, Message: "is stopped"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"message":"cannot be live-migrated: x","vms":["a/1","b/4"]},{"message":"no other node","vms":["a/3"]}]`; string(got) != want {
		t.Errorf("grouped as %s, want %s", got, want)
	}
}
