package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/drydock-dev/drydock/pkg/api/feed"
)

// Session is one client, as the API sees it.
type Session interface {
	// Feed returns what the client asks to follow: nil for a kind that never changes. An
	// error is for the client to read.
	Feed(ctx context.Context, resource string) (*feed.Feed, error)
	// Render is an object as this client sees it.
	Render(item *feed.Item) ([]byte, error)
	// Renew is called from time to time; an error ends the session, since the client is
	// not, or may not, any more what it was.
	Renew(ctx context.Context) error
}

// Server holds the websockets of a process. Its fields are set once, before use.
type Server struct {
	// PingEvery is how often a client is told that the server is there, and asked whether
	// it is.
	PingEvery time.Duration
	// Pause is how long a client waits for further changes after it was sent some, so that
	// a node that changes all the time costs the same as one that changes now and then. The
	// first change after a quiet time is sent at once. 0 for none.
	Pause time.Duration
	// Most is how many clients are served at a time.
	Most int64

	open atomic.Int64
}

const (
	// behind is by the changes of how many objects a client may fall behind.
	behind = 1024
	// writeTime is how long one message may take to leave.
	writeTime = 10 * time.Second
	// wishSize and wishes bound what one client may ask for.
	wishSize = 16 << 10
	wishes   = 64
)

var errTooSlow = errors.New("too slow: more changes have come than were read")

// Serve turns the request into a websocket and returns when it ends, which it does at the
// latest with the given context.
func (s *Server) Serve(ctx context.Context, w http.ResponseWriter, r *http.Request, session Session) {
	if s.open.Add(1) > s.Most {
		s.open.Add(-1)
		w.Header().Set("Retry-After", "30")
		http.Error(w, fmt.Sprintf("%d websockets are open already", s.Most), http.StatusServiceUnavailable)
		return
	}
	defer s.open.Add(-1)
	// Where a browser comes from was checked with every other request's origin.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: subprotocols})
	if err != nil {
		return // Accept has answered.
	}
	defer conn.CloseNow() //nolint:errcheck // it is closed already, or nobody listens
	conn.SetReadLimit(wishSize)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &client{conn: conn, session: session, pause: s.Pause, reader: feed.NewReader(behind), feeds: map[key]*feed.Feed{}, wishes: make(chan wish, wishes)}
	go func() {
		defer cancel()
		c.read(ctx)
	}()
	code, reason := c.write(ctx, s.PingEvery)
	c.leave()
	if ctx.Err() == nil {
		_ = conn.Close(code, reason)
	}
}

// subprotocols are accepted since a browser names one where it carries its token in a
// second.
var subprotocols = []string{"base64.binary.k8s.io", "v4.channel.k8s.io"}

type client struct {
	conn    *websocket.Conn
	session Session
	pause   time.Duration
	reader  *feed.Reader
	wishes  chan wish
	feeds   map[key]*feed.Feed
}

// read takes the client's wishes, and by reading lets the library answer its control
// frames. It ends with the connection.
func (c *client) read(ctx context.Context) {
	for {
		_, raw, err := c.conn.Read(ctx)
		if err != nil {
			return
		}
		var w wish
		if json.Unmarshal(raw, &w) != nil {
			w = wish{} // Answered like a kind that there is not.
		}
		select {
		case c.wishes <- w:
		default:
			return // Reading must go on, or no answer to a ping would be seen.
		}
	}
}

// write is the only one that writes, until something ends the session.
func (c *client) write(ctx context.Context, pingEvery time.Duration) (websocket.StatusCode, string) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	rested := time.NewTimer(c.pause)
	rested.Stop()
	wake := c.reader.Wake()
	for {
		var err error
		select {
		case <-ctx.Done():
			return websocket.StatusGoingAway, ""
		case w := <-c.wishes:
			err = c.grant(ctx, &w)
		case <-wake:
			err, wake = c.forward(ctx), nil
			rested.Reset(c.pause)
		case <-rested.C:
			wake = c.reader.Wake()
		case <-ticker.C:
			if err = c.session.Renew(ctx); err != nil {
				return websocket.StatusPolicyViolation, clip(err.Error())
			}
			err = c.ping(ctx)
		}
		switch {
		case errors.Is(err, errTooSlow):
			return websocket.StatusTryAgainLater, errTooSlow.Error()
		case err != nil:
			return websocket.StatusInternalError, ""
		}
	}
}

// grant does what the client asks for.
func (c *client) grant(ctx context.Context, w *wish) error {
	k := w.key()
	if w.Stop {
		c.stop(k)
		return c.send(ctx, k.message(stopped))
	}
	source, err := c.session.Feed(ctx, w.ResourceType)
	if err == nil && len(c.feeds) >= wishes {
		err = fmt.Errorf("more than %d subscriptions on one websocket", wishes)
	}
	if err != nil {
		failure, encodeErr := k.failure(err.Error())
		if encodeErr != nil {
			return encodeErr
		}
		if err := c.send(ctx, failure); err != nil {
			return err
		}
		return c.send(ctx, k.message(stopped))
	}
	if err := c.send(ctx, k.message(started)); err != nil {
		return err
	}
	if _, again := c.feeds[k]; again || source == nil {
		return nil
	}
	c.feeds[k] = source
	source.Read(c.reader, w.ResourceVersion)
	return nil
}

// stop ends a subscription; the feed goes on while another one needs it.
func (c *client) stop(k key) {
	source, ok := c.feeds[k]
	delete(c.feeds, k)
	for _, other := range c.feeds {
		if other == source {
			return
		}
	}
	if ok {
		source.Leave(c.reader)
	}
}

func (c *client) leave() {
	for _, source := range c.feeds {
		source.Leave(c.reader)
	}
}

func (c *client) forward(ctx context.Context) error {
	events, ok := c.reader.Take()
	if !ok {
		return errTooSlow
	}
	for n := range events {
		event := &events[n]
		if !c.wanted(event) {
			continue
		}
		data, err := c.session.Render(event.Item)
		if err != nil {
			return fmt.Errorf("change of %s %s: %w", event.Kind.Type, event.ID, err)
		}
		if err := c.send(ctx, eventMessage(event, data)); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) wanted(event *feed.Event) bool {
	for k := range c.feeds {
		if k.wants(event) {
			return true
		}
	}
	return false
}

// ping sends the message that front-ends look for and the control frame that every
// websocket answers, and waits for the answer.
func (c *client) ping(ctx context.Context) error {
	if err := c.send(ctx, message{Name: ping}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	return c.conn.Ping(ctx)
}

func (c *client) send(ctx context.Context, m message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("message %s: %w", m.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	return c.conn.Write(ctx, websocket.MessageText, raw)
}

// clip keeps a reason within what a close frame holds.
func clip(reason string) string {
	const most = 120
	if len(reason) > most {
		return reason[:most]
	}
	return reason
}
