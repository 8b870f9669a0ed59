// Package faults puts a proxy between the manager and the API server that kills the
// manager at a write, or answers writes badly, and checks that every story ends as it
// would have without.
package faults

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

func TestMain(m *testing.M) {
	code := cluster.Main(m)
	manager.Remove()
	os.Exit(code)
}

// proxy forwards everything to the API server, and hands writes to meddle first.
// Leases and events are let pass: they decide nothing.
type proxy struct {
	kubeconfig string
	forward    http.Handler

	mu     sync.Mutex
	meddle func(w http.ResponseWriter, r *http.Request, forward http.Handler)
	writes int
	// late, where it is set, keeps what a watch of VMIs brings until it is closed.
	late chan struct{}
}

func newProxy(t *testing.T, c *cluster.Cluster) *proxy {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig(t, "drydock-faults"))
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server.URL}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "true" && strings.HasSuffix(r.URL.Path, "/virtualmachineinstances") {
		w = lateWriter{w, r, p}
	}
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/events") || strings.Contains(r.URL.Path, "/events/") || strings.Contains(r.URL.Path, "/leases/drydock") && !strings.Contains(r.URL.Path, "admission") {
		p.forward.ServeHTTP(w, r)
		return
	}
	p.mu.Lock()
	p.writes++
	meddle := p.meddle
	p.mu.Unlock()
	if meddle == nil {
		p.forward.ServeHTTP(w, r)
		return
	}
	meddle(w, r, p.forward)
}

// set makes meddle see the writes from now on; nil lets them pass.
func (p *proxy) set(meddle func(w http.ResponseWriter, r *http.Request, forward http.Handler)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.meddle = meddle
}

// delay keeps the news of VMIs from the manager until the returned function is called.
func (p *proxy) delay() (deliver func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := make(chan struct{})
	p.late = late
	return sync.OnceFunc(func() { close(late) })
}

// lateWriter writes what a watch brings.
type lateWriter struct {
	http.ResponseWriter
	request *http.Request
	proxy   *proxy
}

func (l lateWriter) Write(body []byte) (int, error) {
	l.proxy.mu.Lock()
	late := l.proxy.late
	l.proxy.mu.Unlock()
	if late != nil {
		select {
		case <-late:
		case <-l.request.Context().Done():
		}
	}
	return l.ResponseWriter.Write(body)
}

// Unwrap lets the ReverseProxy flush.
func (l lateWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

// hangUp drops the connection without an answer.
func hangUp() { panic(http.ErrAbortHandler) }
