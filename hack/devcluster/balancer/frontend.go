package balancer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// dialTimeout is generous for loopback, where a refusal is immediate.
const dialTimeout = time.Second

// Target is where connections may go.
type Target struct {
	// Address is host:port. Readiness is a URL that answers 200 while the target
	// may be used; without one, that a connection can be made is enough.
	Address, Readiness string
}

// Frontend is one listening port.
type Frontend struct {
	listener net.Listener
	log      *slog.Logger

	mu       sync.Mutex
	backends []*backend
	next     int
}

// NewFrontend listens on a free loopback port and serves until Close.
func NewFrontend(log *slog.Logger) (*Frontend, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for a balancer: %w", err)
	}
	f := &Frontend{listener: listener, log: log}
	go f.accept()
	return f, nil
}

// Port is where it listens.
func (f *Frontend) Port() int {
	return f.listener.Addr().(*net.TCPAddr).Port // it listens on TCP
}

// SetTargets replaces the targets. A target that stays keeps what is known of its
// readiness; one that goes gets no new connections and keeps the open ones.
func (f *Frontend) SetTargets(targets []Target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := map[Target]*backend{}
	for _, b := range f.backends {
		kept[b.Target] = b
	}
	f.backends = nil
	for _, target := range targets {
		b := kept[target]
		if b == nil {
			b = newBackend(target)
		}
		delete(kept, target)
		f.backends = append(f.backends, b)
	}
	for _, gone := range kept {
		gone.stop()
	}
}

// Close stops listening and checking. Open connections stay.
func (f *Frontend) Close() error {
	f.SetTargets(nil)
	return f.listener.Close()
}

func (f *Frontend) accept() {
	for {
		conn, err := f.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			f.log.Error("balancer cannot accept", "port", f.Port(), "error", err)
			// Out of descriptors, most likely: asking again at once would spin.
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go f.serve(conn.(*net.TCPConn)) // it listens on TCP
	}
}

func (f *Frontend) serve(client *net.TCPConn) {
	server, err := f.dial()
	if err != nil {
		f.log.Warn("balancer refuses a connection", "port", f.Port(), "error", err)
		// A reset tells the client at once; a clean close looks like an answer.
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pipe(server, client) })
	both.Go(func() { pipe(client, server) })
	both.Wait()
	_ = client.Close()
	_ = server.Close()
}

// pipe forwards one direction, and its end: protocols exist that close one half
// and still read the other.
func pipe(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		// The connection is broken; without this the other direction would wait
		// for an end that never comes.
		_ = to.Close()
		_ = from.Close()
		return
	}
	_ = to.CloseWrite()
}

// dial connects to the next ready backend, passing over those that refuse.
func (f *Frontend) dial() (*net.TCPConn, error) {
	candidates := f.ready()
	if len(candidates) == 0 {
		return nil, errors.New("no backend is ready")
	}
	var errs []error
	for _, b := range candidates {
		conn, err := net.DialTimeout("tcp", b.Address, dialTimeout)
		if err == nil {
			return conn.(*net.TCPConn), nil // it dialled TCP
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// ready lists the ready backends, beginning with the one whose turn it is.
func (f *Frontend) ready() []*backend {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ready []*backend
	for _, b := range f.backends {
		if b.ready.Load() {
			ready = append(ready, b)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	turn := f.next % len(ready)
	f.next++
	return append(ready[turn:len(ready):len(ready)], ready[:turn]...)
}
