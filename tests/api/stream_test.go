package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/operator"
)

// dial opens a websocket, nil where it is refused.
func dial(t testing.TB, c *caller) (*websocket.Conn, int) {
	t.Helper()
	conn, response, err := websocket.Dial(t.Context(), "wss://"+c.house.address+"/v1/harvester/subscribe", &websocket.DialOptions{HTTPClient: c.client, HTTPHeader: c.header})
	if response == nil {
		t.Fatal(err)
	}
	if err != nil {
		_ = response.Body.Close()
		return nil, response.StatusCode
	}
	conn.SetReadLimit(-1)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn, response.StatusCode
}

type event struct {
	Name, ResourceType, Revision string
	Data                         shown
	at                           time.Time
}

func follow(t testing.TB, conn *websocket.Conn, wish string) {
	t.Helper()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(wish)); err != nil {
		t.Fatal(err)
	}
}

// until reads events until one satisfies the condition, and returns it.
func until(t testing.TB, conn *websocket.Conn, what string, condition func(*event) bool) *event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			t.Fatalf("until %s: %v", what, err)
		}
		e := &event{at: time.Now()}
		if err := json.Unmarshal(raw, e); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		if condition(e) {
			return e
		}
	}
}

func TestChangesArrive(t *testing.T) {
	t.Parallel()
	h := serving(t)
	host := h.Pool(t, 1).Host(0)
	c := h.account(t, viewNodes, updateNodes)
	conn, _ := dial(t, c)
	follow(t, conn, `{"resourceType":"node"}`)
	if first := until(t, conn, "anything", func(*event) bool { return true }); first.Name != "resource.start" || first.ResourceType != "node" {
		t.Errorf("it begins with %+v", first)
	}
	until(t, conn, "the node is told", func(e *event) bool { return e.Name == "resource.create" && e.Data.ID == host })

	var took []time.Duration
	for range 10 {
		for _, action := range []string{"cordon", "uncordon"} {
			began := time.Now()
			c.act(t, host, action, "{}").want(t, http.StatusNoContent)
			other := map[string]string{"cordon": "uncordon", "uncordon": "cordon"}[action]
			e := until(t, conn, action, func(e *event) bool {
				return e.Name == "resource.change" && e.Data.ID == host && e.Data.Actions[other] != ""
			})
			took = append(took, e.at.Sub(began))
		}
	}
	slices.Sort(took)
	t.Logf("from an action to its change on the websocket: p50 %s, most %s", took[len(took)/2], took[len(took)-1])

	c.act(t, host, "enableMaintenanceMode", "{}").want(t, http.StatusNoContent)
	// What it is in between may be passed over: a change is told of four times a second.
	until(t, conn, "completed", func(e *event) bool {
		return e.Data.ID == host && e.Data.Metadata.Annotations[maintenance.AnnotationStatus] == maintenance.StatusCompleted && e.Data.Actions["disableMaintenanceMode"] != ""
	})
	c.act(t, host, "disableMaintenanceMode", "{}").want(t, http.StatusNoContent)
	until(t, conn, "out of maintenance", func(e *event) bool { return e.Data.ID == host && e.Data.Actions["enableMaintenanceMode"] != "" })
	operator.AwaitOut(t, h.Cluster, host)

	follow(t, conn, `{"resourceType":"pod"}`)
	until(t, conn, "pods are refused", func(e *event) bool { return e.Name == "resource.error" && e.ResourceType == "pod" })
	until(t, conn, "a ping", func(e *event) bool { return e.Name == "ping" })
	follow(t, conn, `{"resourceType":"node","stop":true}`)
	until(t, conn, "the end", func(e *event) bool { return e.Name == "resource.stop" && e.ResourceType == "node" })
}

// A list and the changes after its revision leave no gap.
func TestAWebsocketGoesOnFromAList(t *testing.T) {
	t.Parallel()
	h := serving(t)
	host := h.Pool(t, 1).Host(0)
	c := h.account(t, viewNodes, updateNodes, rule("", "pods", "list"), rule("", "namespaces", "list", "get"))
	var list struct {
		Revision string
		Data     []shown
	}
	a := c.send(t, http.MethodGet, "/v1/harvester/nodes", "")
	if err := json.Unmarshal([]byte(a.body), &list); err != nil {
		t.Fatal(err)
	}
	c.act(t, host, "cordon", "{}").want(t, http.StatusNoContent)
	conn, _ := dial(t, c)
	follow(t, conn, `{"resourceType":"node","resourceVersion":"`+list.Revision+`"}`)
	until(t, conn, "the change in between", func(e *event) bool { return e.Data.ID == host && e.Data.Actions["uncordon"] != "" })
	h.AwaitNode(t, host, "cordoned", func(n *corev1.Node) bool { return n.Spec.Unschedulable })

	for _, kind := range []string{"pods", "namespaces", "counts", "schemas"} {
		c.send(t, http.MethodGet, "/v1/harvester/"+kind+"?exclude=metadata.managedFields", "").want(t, http.StatusOK, `"type":"collection"`)
	}
	c.send(t, http.MethodGet, "/v1/namespaces/kube-system", "").want(t, http.StatusOK, `"id":"kube-system"`)
	if !strings.Contains(c.send(t, http.MethodGet, "/v1/harvester/counts", "").body, `"node"`) {
		t.Error("nodes are not counted")
	}
}
