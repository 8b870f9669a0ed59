package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/drydock-dev/drydock/pkg/api/feed"
	"github.com/drydock-dev/drydock/pkg/api/view"
)

type house struct {
	cache.SharedInformer
	handler cache.ResourceEventHandler
	feed    *feed.Feed
	server  *Server
	url     string
	refuse  atomic.Bool
}

type registered struct {
	cache.ResourceEventHandlerRegistration
}

func (registered) HasSynced() bool { return true }

func (h *house) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	h.handler = handler
	return registered{}, nil
}

func (h *house) Feed(_ context.Context, resource string) (*feed.Feed, error) {
	switch resource {
	case "node":
		return h.feed, nil
	case "schema":
		return nil, nil
	}
	return nil, fmt.Errorf("resourceType: %q is unknown", resource)
}

func (h *house) Render(item *feed.Item) ([]byte, error) { return item.Body() }

func (h *house) Renew(context.Context) error {
	if h.refuse.Load() {
		return errors.New("the token has expired")
	}
	return nil
}

func open(t *testing.T, pingEvery time.Duration) *house {
	t.Helper()
	h := &house{feed: feed.New(&view.Nodes), server: &Server{PingEvery: pingEvery, Most: 3}}
	if _, err := h.feed.Follow(h); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.server.Serve(t.Context(), w, r, h) }))
	t.Cleanup(server.Close)
	h.url = "ws" + strings.TrimPrefix(server.URL, "http")
	return h
}

func (h *house) dial(t *testing.T) *websocket.Conn {
	t.Helper()
	conn, response, err := websocket.Dial(t.Context(), h.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.Body != nil {
		_ = response.Body.Close()
	}
	conn.SetReadLimit(-1)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

func say(t *testing.T, conn *websocket.Conn, text string) {
	t.Helper()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, conn *websocket.Conn) string {
	t.Helper()
	_, raw, err := conn.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	var data struct{ ID, Error string }
	_ = json.Unmarshal(m.Data, &data)
	return strings.Join(strings.Fields(strings.Join([]string{m.Name, m.ResourceType, m.Revision, data.ID, data.Error}, " ")), " ")
}

func (h *house) change(name string, version int) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: fmt.Sprint(version), Annotations: map[string]string{"much": strings.Repeat("x", 8<<10)}}}
	h.handler.OnUpdate(n, n)
}

func expect(t *testing.T, conn *websocket.Conn, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if got := hear(t, conn); got != want {
			t.Fatalf("heard %q, want %q", got, want)
		}
	}
}

func TestAConversation(t *testing.T) {
	t.Parallel()
	h := open(t, time.Hour)
	h.change("a", 1)
	conn := h.dial(t)
	say(t, conn, `{"resourceType":"node"}`)
	expect(t, conn, "resource.start node", "resource.create node 1 a")
	h.change("a", 2)
	expect(t, conn, "resource.change node 2 a")
	h.change("b", 3)
	h.handler.OnDelete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "4"}})
	expect(t, conn, "resource.create node 3 b", "resource.remove node 4 a")
	say(t, conn, `{"resourceType":"node","stop":true}`)
	expect(t, conn, "resource.stop node")
	h.change("b", 5)
	say(t, conn, `{"resourceType":"node","resourceVersion":"5"}`)
	expect(t, conn, "resource.start node")
	say(t, conn, `{"resourceType":"schema"}`)
	expect(t, conn, "resource.start schema")
	for text, name := range map[string]string{`{"resourceType":"x"}`: "x", `not JSON`: "", `[]`: "", `null`: ""} {
		say(t, conn, text)
		expect(t, conn, strings.Join(strings.Fields(fmt.Sprintf("resource.error %s resourceType: %q is unknown", name, name)), " "), strings.TrimSpace("resource.stop "+name))
	}
	h.change("b", 6)
	expect(t, conn, "resource.change node 6 b")
}

func TestOneObjectAlone(t *testing.T) {
	t.Parallel()
	h := open(t, time.Hour)
	conn := h.dial(t)
	say(t, conn, `{"resourceType":"node","id":"b"}`)
	expect(t, conn, "resource.start node")
	h.change("a", 1)
	h.change("b", 2)
	expect(t, conn, "resource.create node 2 b")
}

func TestPingsAreSentAndAnswered(t *testing.T) {
	t.Parallel()
	h := open(t, 20*time.Millisecond)
	conn := h.dial(t)
	expect(t, conn, "ping", "ping", "ping")
	h.refuse.Store(true)
	for {
		_, _, err := conn.Read(t.Context())
		if err == nil {
			continue
		}
		var closed websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != websocket.StatusPolicyViolation || !strings.Contains(closed.Reason, "expired") {
			t.Errorf("it ends with %v", err)
		}
		return
	}
}

// A client that does not read is let go, and nobody else notices it.
func TestASlowClientCostsNobodyAnything(t *testing.T) {
	t.Parallel()
	h := open(t, time.Hour)
	slow, quick := h.dial(t), h.dial(t)
	for _, conn := range []*websocket.Conn{slow, quick} {
		say(t, conn, `{"resourceType":"node","resourceVersion":"-1"}`)
		expect(t, conn, "resource.start node")
	}
	// As many as its queue and the buffers of a connection never hold.
	for i := range 4 * behind {
		name := fmt.Sprintf("a%d", i)
		h.change(name, i+1)
		if got := hear(t, quick); !strings.HasSuffix(got, fmt.Sprintf(" node %d %s", i+1, name)) {
			t.Fatalf("the quick client hears %q at change %d", got, i+1)
		}
	}
	for {
		if _, _, err := slow.Read(t.Context()); err != nil {
			if websocket.CloseStatus(err) == -1 && t.Context().Err() != nil {
				t.Errorf("the slow client was not let go: %v", err)
			}
			break
		}
	}
	h.change("a0", 1<<20)
	expect(t, quick, fmt.Sprintf("resource.change node %d a0", 1<<20))
}

// What changes all the time is told from time to time, what changes after a rest at once.
func TestManyChangesAreTakenTogether(t *testing.T) {
	t.Parallel()
	h := open(t, time.Hour)
	h.server.Pause = 100 * time.Millisecond
	conn := h.dial(t)
	say(t, conn, `{"resourceType":"node","resourceVersion":"-1"}`)
	expect(t, conn, "resource.start node")
	h.change("a", 1)
	expect(t, conn, "resource.create node 1 a")
	const last = 2000
	for i := range last {
		h.change("a", i+2)
	}
	heard := 0
	for want := fmt.Sprintf("resource.change node %d a", last+1); hear(t, conn) != want; {
		heard++
	}
	if heard > last/2 {
		t.Errorf("%d of %d changes were sent", heard, last)
	}
}

func TestThereIsALimit(t *testing.T) {
	t.Parallel()
	h := open(t, time.Hour)
	for range h.server.Most {
		h.dial(t)
	}
	_, response, err := websocket.Dial(t.Context(), h.url, nil)
	if err == nil || response == nil || response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more is answered with %v, %v", response, err)
	}
	if response != nil && response.Body != nil {
		_ = response.Body.Close()
	}
	if h.server.open.Load() != h.server.Most {
		t.Errorf("%d are open", h.server.open.Load())
	}
}
