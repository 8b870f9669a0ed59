package api

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/drydock-dev/drydock/pkg/api/access"
	"github.com/drydock-dev/drydock/pkg/api/feed"
	"github.com/drydock-dev/drydock/pkg/api/stream"
	"github.com/drydock-dev/drydock/pkg/api/view"
	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// Authenticator tells who sent a request.
type Authenticator interface {
	Authenticate(r *http.Request) (user.Info, error)
}

// Authorizer tells what callers may, and on whose behalf they call.
type Authorizer interface {
	May(ctx context.Context, who user.Info, right access.Right) (bool, error)
	Impersonate(ctx context.Context, sender user.Info, header http.Header) (*access.Caller, error)
}

// Nodes reads and changes nodes in the API server.
type Nodes interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Node, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Node, error)
}

// Observer observes a node for a plan, as the admission of a request does.
type Observer interface {
	Live(ctx context.Context, name string) (*plan.Snapshot, error)
}

// Feeds finds the feed of a kind that is not fixed. It may begin to watch the kind, and
// fails while its objects are not known.
type Feeds interface {
	Feed(ctx context.Context, kind *view.Kind) (*feed.Feed, error)
}

// Config is what the API stands on.
type Config struct {
	Authenticator Authenticator
	Authorizer    Authorizer
	Nodes         Nodes
	Observer      Observer
	Feeds         Feeds
	Hardware      Hardware
	// Words are those in which requests are written.
	Words maintenance.Vocabulary
	// Idle says why requests are not served by Drydock, "" while they are.
	Idle func() string
	// TrustedProxies may say where a request came from.
	TrustedProxies []netip.Prefix
	// PingEvery is how often websockets are pinged; 0 for every 30 s.
	PingEvery time.Duration
	Log       logrus.FieldLogger
}

// Limits of what one request may take.
const (
	bodyLimit   = 64 << 10
	actionTime  = 30 * time.Second
	mostSockets = 1024
	// socketPause bounds what a client of a websocket costs, and is well below what a
	// person notices.
	socketPause = 250 * time.Millisecond
	// mostActions is how many actions are worked on at a time. More would only take turns
	// on the same processors, and the controllers' turns as well.
	mostActions = 16
)

type server struct {
	Config
	proxies proxies
	sockets *stream.Server
	// working holds a token for each action that is worked on.
	working chan struct{}
}

// New returns the API. Websockets end with the context.
func New(ctx context.Context, config *Config) http.Handler {
	s := &server{Config: *config, proxies: config.TrustedProxies, working: make(chan struct{}, mostActions)}
	if s.PingEvery == 0 {
		s.PingEvery = 30 * time.Second
	}
	s.sockets = &stream.Server{PingEvery: s.PingEvery, Pause: socketPause, Most: mostSockets}
	mux := http.NewServeMux()
	for _, prefix := range []string{"/v1/", view.Prefix} {
		for i := range view.Kinds {
			kind := &view.Kinds[i]
			mux.HandleFunc("GET "+prefix+kind.Plural, s.list(kind))
			mux.HandleFunc("GET "+prefix+kind.Plural+"/{id...}", s.get(kind))
		}
		mux.HandleFunc("GET "+prefix+"subscribe", s.subscribe(ctx))
		mux.HandleFunc("POST "+prefix+view.Nodes.Plural+"/{name}", s.act)
	}
	mux.HandleFunc("GET /v1/openapi.json", s.description)
	mux.HandleFunc("GET /openapi/v3", s.description)
	return s.logged(s.identified(s.guarded(mux)))
}
