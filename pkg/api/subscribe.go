package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/drydock-dev/drydock/pkg/api/access"
	"github.com/drydock-dev/drydock/pkg/api/feed"
	"github.com/drydock-dev/drydock/pkg/api/view"
)

// subscribe serves a websocket until it, or the given context, ends.
func (s *server) subscribe(ctx context.Context) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.sockets.Serve(ctx, w, r, &session{server: s, request: r, caller: requestOf(r).caller, looks: map[string]*look{}})
	}
}

// session is a client of a websocket. One goroutine uses it.
type session struct {
	server  *server
	request *http.Request
	caller  *access.Caller
	// looks are how it sees the kinds that it follows.
	looks map[string]*look
}

// Feed implements stream.Session.
func (s *session) Feed(ctx context.Context, resource string) (*feed.Feed, error) {
	i := slices.IndexFunc(view.Kinds, func(k view.Kind) bool { return k.Type == resource })
	if i < 0 {
		return nil, fmt.Errorf("resourceType: %q is unknown", clip(resource))
	}
	kind := &view.Kinds[i]
	if kind.Fixed {
		return nil, nil
	}
	if err := s.look(ctx, kind); err != nil {
		return nil, err
	}
	return s.server.Feeds.Feed(ctx, kind)
}

// look fails unless the caller may follow the kind, and notes how he sees it.
func (s *session) look(ctx context.Context, kind *view.Kind) error {
	if err := s.server.require(ctx, s.caller, listRight(kind)); err != nil {
		return err
	}
	look, err := s.server.lookOf(ctx, s.caller, kind, s.server.proxies.originOf(s.request).base(), "")
	if err != nil {
		return err
	}
	s.looks[kind.Type] = look
	return nil
}

// Render implements stream.Session.
func (s *session) Render(item *feed.Item) ([]byte, error) {
	look, ok := s.looks[item.Kind.Type]
	if !ok {
		return json.RawMessage("null"), nil
	}
	return look.render(item)
}

// Renew implements stream.Session: a token that has expired, or a right that was taken
// away, ends the websocket. So does not knowing, since the client simply comes back.
func (s *session) Renew(ctx context.Context) error {
	caller, err := s.server.identify(s.request)
	if err != nil {
		return err
	}
	s.caller = caller
	for _, l := range s.looks {
		if err := s.look(ctx, l.kind); err != nil {
			return err
		}
	}
	return nil
}
