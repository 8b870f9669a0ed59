package api

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// shown is what a front-end reads of a node.
type shown struct {
	ID       string            `json:"id"`
	Type     string            `json:"type"`
	Actions  map[string]string `json:"actions"`
	Links    map[string]string `json:"links"`
	Metadata struct {
		Annotations   map[string]string `json:"annotations"`
		ManagedFields []any             `json:"managedFields"`
		Fields        []any             `json:"fields"`
		Relationships []any             `json:"relationships"`
		State         struct {
			Name, Message        string
			Error, Transitioning bool
		} `json:"state"`
	} `json:"metadata"`
	Status map[string]any `json:"status"`
}

// stateText is how Harvester's front-end words the state of a node in its list of hosts.
func (s *shown) stateText() string {
	switch s.Metadata.Annotations[maintenance.AnnotationStatus] {
	case maintenance.StatusRunning:
		return "Entering maintenance mode"
	case maintenance.StatusCompleted:
		return "Maintenance"
	}
	if _, ok := s.Actions["uncordon"]; ok {
		return "Cordoned"
	}
	return s.Metadata.State.Name
}

func read(t *testing.T, h http.Handler, who, target string, into any) {
	t.Helper()
	response, body := ask(t, h, who, http.MethodGet, target, "")
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %s", target, response.StatusCode, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("GET %s: %v: %s", target, err, body)
	}
}

func TestWhatTheListOfHostsShows(t *testing.T) {
	t.Parallel()
	const reading = "listUnhealthyVM maintenancePlan maintenancePossible powerActionPossible"
	draining := []func(*corev1.Node){annotated(maintenance.AnnotationStatus, "running"), annotated(maintenance.AnnotationNodeRecord, `{"id":"m"}`), shows(maintenance.PhaseDraining, corev1.ConditionTrue, "3 VMs left"), unschedulable}
	beside := []func(*corev1.Node){annotated(maintenance.AnnotationStatus, "draining"), annotated(maintenance.AnnotationNodeRecord, `{"id":"m"}`), shows(maintenance.PhaseDraining, corev1.ConditionTrue, "3 VMs left"), unschedulable}
	halted := []func(*corev1.Node){annotated(maintenance.AnnotationStatus, "running"), shows(maintenance.PhaseError, corev1.ConditionTrue, "timed out")}
	validating := []func(*corev1.Node){annotated(maintenance.AnnotationRequested, "true"), shows(maintenance.PhaseValidating, corev1.ConditionUnknown, "checking")}
	dead := func(n *corev1.Node) {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].Message = corev1.ConditionUnknown, "Kubelet stopped posting node status."
	}
	const cpu = "disableCPUManager enableCPUManager "
	for name, c := range map[string]struct {
		node          []func(*corev1.Node)
		who           string
		text          string
		actions       string
		message       string
		wrong, moving bool
	}{
		"in service":                     {who: "editor", text: "active", actions: "cordon " + cpu + "enableMaintenanceMode " + reading},
		"in service, to a viewer":        {who: "viewer", text: "active", actions: reading},
		"cordoned":                       {who: "editor", node: []func(*corev1.Node){unschedulable}, text: "Cordoned", actions: cpu + "enableMaintenanceMode " + reading + " uncordon"},
		"cordoned, to a viewer":          {who: "viewer", node: []func(*corev1.Node){unschedulable}, text: "active", actions: reading},
		"requested":                      {who: "editor", node: validating, text: "validating", actions: "cordon " + cpu + "enableMaintenanceMode " + reading, message: "checking", moving: true},
		"draining":                       {who: "editor", node: draining, text: "Entering maintenance mode", actions: "disableCPUManager disableMaintenanceMode enableCPUManager listUnhealthyVM maintenancePlan maintenancePossible powerAction powerActionPossible uncordon", message: "3 VMs left", moving: true},
		"draining, to a viewer":          {who: "viewer", node: draining, text: "Entering maintenance mode", actions: reading, message: "3 VMs left", moving: true},
		"draining, beside Harvester":     {who: "editor", node: beside, text: "Cordoned", actions: "disableCPUManager disableMaintenanceMode enableCPUManager listUnhealthyVM maintenancePlan maintenancePossible powerAction powerActionPossible uncordon", message: "3 VMs left", moving: true},
		"completed":                      {who: "editor", node: completed, text: "Maintenance", actions: "disableCPUManager disableMaintenanceMode enableCPUManager listUnhealthyVM maintenancePlan maintenancePossible powerAction powerActionPossible uncordon", message: "done"},
		"given up":                       {who: "editor", node: halted, text: "Entering maintenance mode", actions: "cordon disableCPUManager disableMaintenanceMode enableCPUManager listUnhealthyVM maintenancePlan maintenancePossible powerAction powerActionPossible", message: "timed out", wrong: true},
		"refused":                        {who: "editor", node: said, text: "active", actions: "clearMaintenanceMode cordon " + cpu + "enableMaintenanceMode " + reading, message: "refused: no", wrong: true},
		"not ready":                      {who: "viewer", node: []func(*corev1.Node){dead}, text: "not-ready", actions: reading, message: "Kubelet stopped posting node status.", wrong: true},
		"not ready, and in maintenance":  {who: "viewer", node: append(slices.Clone(draining), dead), text: "Entering maintenance mode", actions: reading, message: "Kubelet stopped posting node status.; 3 VMs left", wrong: true, moving: true},
		"being removed, and in service":  {who: "viewer", node: []func(*corev1.Node){func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{} }}, text: "removing", actions: reading, moving: true},
		"cordoned, and never maintained": {who: "stranger with no rights", text: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, h := newWorld(t, node("w1", c.node...))
			if c.text == "" {
				if response, text := ask(t, h, c.who, http.MethodGet, nodes+"w1", ""); response.StatusCode != http.StatusForbidden {
					t.Errorf("answered %d %s", response.StatusCode, text)
				}
				return
			}
			var one shown
			read(t, h, c.who, nodes+"w1", &one)
			if got := one.stateText(); got != c.text {
				t.Errorf("the list shows %q, want %q", got, c.text)
			}
			if got := strings.Join(slices.Sorted(maps.Keys(one.Actions)), " "); got != strings.TrimSpace(c.actions) {
				t.Errorf("it offers %q, want %q", got, c.actions)
			}
			state := one.Metadata.State
			if state.Message != c.message || state.Error != c.wrong || state.Transitioning != c.moving {
				t.Errorf("its state is %+v", state)
			}
			for action, url := range one.Actions {
				if want := "http://example.com/v1/harvester/nodes/w1?action=" + action; url != want {
					t.Errorf("%s is at %s, want %s", action, url, want)
				}
			}
			if _, updates := one.Links["update"]; updates != (c.who == "editor") || one.Links["self"] == "" || one.Links["view"] == "" {
				t.Errorf("its links are %v", one.Links)
			}
			if one.ID != "w1" || one.Type != "node" || len(one.Metadata.Fields) == 0 || one.Metadata.Relationships == nil {
				t.Errorf("it is shown as %+v", one)
			}
		})
	}
}

type listing struct {
	Type, ResourceType, Revision, Continue string
	Count, Pages                           int
	Links                                  map[string]string
	Data                                   []shown
}

func many(n int) []*corev1.Node {
	var list []*corev1.Node
	for i := range n {
		list = append(list, node(fmt.Sprintf("n%03d", i), func(n *corev1.Node) {
			n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		}))
	}
	return list
}

func TestFieldsCanBeLeftOut(t *testing.T) {
	t.Parallel()
	_, h := newWorld(t, many(2)...)
	for target, statusLeft := range map[string]bool{
		"/v1/harvester/nodes": true, "/v1/nodes?exclude=metadata.managedFields": true,
		"/v1/harvester/nodes?exclude=status&exclude=metadata.managedFields": false,
	} {
		var page listing
		read(t, h, "viewer", target, &page)
		for i := range page.Data {
			if n := &page.Data[i]; n.Metadata.ManagedFields != nil || (n.Status != nil) != statusLeft || n.Actions == nil {
				t.Errorf("%s: %+v", target, n)
			}
		}
	}
}

func TestALargeAnswerIsCompressed(t *testing.T) {
	t.Parallel()
	_, h := newWorld(t, many(10)...)
	response, body := ask(t, h, "viewer", http.MethodGet, "/v1/harvester/nodes", "", "Accept-Encoding", "br, gzip;q=0.8")
	if response.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("it is not: %v", response.Header)
	}
	z, err := gzip.NewReader(bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil || !json.Valid(raw) {
		t.Errorf("it unpacks to %q, %v", raw, err)
	}
	if response, _ := ask(t, h, "viewer", http.MethodGet, "/v1/harvester/nodes", "", "Accept-Encoding", "gzip;q=0"); response.Header.Get("Content-Encoding") != "" {
		t.Error("it is compressed for a client that does not want it")
	}
}

func TestWhatAFrontEndReadsFirst(t *testing.T) {
	t.Parallel()
	_, h := newWorld(t, many(2)...)
	find := func(target, id string) map[string]any {
		var page struct{ Data []map[string]any }
		read(t, h, "viewer", target, &page)
		for _, object := range page.Data {
			if object["id"] == id {
				return object
			}
		}
		t.Fatalf("%s has no %s: %v", target, id, page.Data)
		return nil
	}
	if got := find("/v1/management.cattle.io.settings", "first-login")["value"]; got != "false" {
		t.Errorf("first-login is %v", got)
	}
	if got := find("/v1/harvester/harvesterhci.io.settings", "server-version")["value"]; got != "v1.3.2" {
		t.Errorf("server-version is %v", got)
	}
	if got, ok := find("/v1/management.cattle.io.clusters", "local")["status"].(map[string]any); !ok || got["provider"] != "harvester" {
		t.Errorf("the cluster is %v", got)
	}
	schema := find("/v1/harvester/schemas", "node")
	if schema["pluralName"] != "nodes" || schema["attributes"].(map[string]any)["kind"] != "Node" {
		t.Errorf("the schema is %v", schema)
	}
	var one map[string]any
	read(t, h, "viewer", "/v1/harvester/schemas/node", &one)
	if one["id"] != "node" {
		t.Errorf("the schema alone is %v", one)
	}
	// A stranger may know that there are schemas, not which kinds there are.
	var page struct{ Data []map[string]any }
	read(t, h, "stranger", "/v1/schemas", &page)
	for _, object := range page.Data {
		if object["id"] == "node" {
			t.Error("a stranger sees the schema of nodes")
		}
	}
}
