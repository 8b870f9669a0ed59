package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v3"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/pkg/certificates"
)

// TLSOptions say how the webhooks and the API are served.
type TLSOptions struct {
	// WebhookAddress is where the webhooks are served.
	WebhookAddress string
	// WebhookService and APIService are the Services by which they are reached: the
	// certificate must be valid for their names.
	WebhookService, APIService string
	// WebhookConfiguration names the configurations that are to trust the CA.
	WebhookConfiguration string
	// Secret holds CA and certificate.
	Secret string
	// Source says who keeps the Secret.
	Source string
	// Lifetimes is what certificates.ParseLifetimes reads.
	Lifetimes string
	// ShutdownDelay is how long a replica that is to end still takes new connections.
	ShutdownDelay time.Duration
}

// The values of TLSOptions.Source.
const (
	TLSSelf   = "self"
	TLSSecret = "secret"
)

func tlsFlags(o *TLSOptions) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "webhook-bind-address", Sources: cli.EnvVars("DRYDOCK_WEBHOOK_BIND_ADDRESS"), Destination: &o.WebhookAddress, Value: ":9443", Usage: "`ADDRESS` of the admission webhooks"},
		&cli.StringFlag{Name: "webhook-service", Sources: cli.EnvVars("DRYDOCK_WEBHOOK_SERVICE"), Destination: &o.WebhookService, Value: "drydock-webhook", Usage: "`NAME` of the Service of the webhooks, in --namespace"},
		&cli.StringFlag{Name: "webhook-configuration", Sources: cli.EnvVars("DRYDOCK_WEBHOOK_CONFIGURATION"), Destination: &o.WebhookConfiguration, Value: "drydock", Usage: "`NAME` of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration that are given the CA bundle"},
		&cli.StringFlag{Name: "api-service", Sources: cli.EnvVars("DRYDOCK_API_SERVICE"), Destination: &o.APIService, Value: "drydock-api", Usage: "`NAME` of the Service of the API, in --namespace"},
		&cli.StringFlag{Name: "tls-secret", Sources: cli.EnvVars("DRYDOCK_TLS_SECRET"), Destination: &o.Secret, Value: "drydock-tls", Usage: "`NAME` of the Secret, in --namespace, with the serving certificate that all replicas share"},
		&cli.StringFlag{Name: "tls-source", Sources: cli.EnvVars("DRYDOCK_TLS_SOURCE"), Destination: &o.Source, Value: TLSSelf, Usage: "who keeps that Secret: \"self\", or \"secret\" for somebody else, such as cert-manager: it is then only read, and webhook configurations are left alone"},
		&cli.StringFlag{Name: "tls-lifetimes", Sources: cli.EnvVars("DRYDOCK_TLS_LIFETIMES"), Destination: &o.Lifetimes, Hidden: true, Usage: "for tests: \"ca=10m,serving=1m,settle=2s,retire=10s\""},
		&cli.DurationFlag{Name: "shutdown-delay", Sources: cli.EnvVars("DRYDOCK_SHUTDOWN_DELAY"), Destination: &o.ShutdownDelay, Value: 3 * time.Second, Usage: "go on serving webhooks and API for this long after SIGTERM, until it is known everywhere that this replica ends"},
	}
}

func (o *TLSOptions) validate() error {
	for _, named := range []struct{ flag, value string }{{"--webhook-service", o.WebhookService}, {"--api-service", o.APIService}} {
		if wrong := validation.IsDNS1035Label(named.value); len(wrong) > 0 {
			return fmt.Errorf("%s: %q is not the name of a Service: %s", named.flag, named.value, wrong[0])
		}
	}
	for _, named := range []struct{ flag, value string }{{"--tls-secret", o.Secret}, {"--webhook-configuration", o.WebhookConfiguration}} {
		if wrong := validation.IsDNS1123Subdomain(named.value); len(wrong) > 0 {
			return fmt.Errorf("%s: %q is not a name: %s", named.flag, named.value, wrong[0])
		}
	}
	if o.Source != TLSSelf && o.Source != TLSSecret {
		return fmt.Errorf("--tls-source: %q is neither %q nor %q", o.Source, TLSSelf, TLSSecret)
	}
	if o.ShutdownDelay < 0 {
		return fmt.Errorf("--shutdown-delay: %s is negative; 0 means none", o.ShutdownDelay)
	}
	if _, err := certificates.ParseLifetimes(o.Lifetimes); err != nil {
		return fmt.Errorf("--tls-lifetimes: %w", err)
	}
	return nil
}

// hosts are all the names by which the Services are called.
func (o *TLSOptions) hosts(namespace string) []string {
	var hosts []string
	for _, service := range []string{o.WebhookService, o.APIService} {
		inNamespace := service + "." + namespace
		hosts = append(hosts, inNamespace+".svc", inNamespace+".svc.cluster.local", inNamespace, service)
	}
	return append(hosts, "localhost", "127.0.0.1", "::1")
}

// keepCertificates begins to keep the serving certificate. Every replica does, leader or
// not, and is not ready before it has one: requests come to replicas that are.
func (m *manager) keepCertificates(ctx context.Context) error {
	o := m.options
	if !o.Webhook && !o.API {
		return nil
	}
	lifetimes, err := certificates.ParseLifetimes(o.TLS.Lifetimes)
	if err != nil {
		return fmt.Errorf("--tls-lifetimes: %w", err)
	}
	settings := certificates.Options{
		Namespace: o.Namespace, Secret: o.TLS.Secret, Foreign: o.TLS.Source == TLSSecret,
		Hosts: o.TLS.hosts(o.Namespace), Lifetimes: lifetimes, Clock: clock.RealClock{}, Log: logrus.StandardLogger(),
	}
	if o.Webhook {
		settings.Configuration = o.TLS.WebhookConfiguration
	}
	m.certificates = certificates.New(m.kube, settings)
	m.ready.also(m.certificates.Waiting)
	m.metrics.Certificate("serving", m.certificates.NotAfter)
	m.tasks.Go(func() error {
		if err := m.certificates.Run(ctx); err != nil {
			return fmt.Errorf("keeping the serving certificate: %w", err)
		}
		return nil
	})
	return nil
}

// Limits of the servers that anybody can reach.
const (
	// maxBody is more than any handler reads: each has a limit of its own, that of a review
	// is in pkg/webhook.
	maxBody     = 8 << 20
	readTimeout = 30 * time.Second
	idleTimeout = 2 * time.Minute
	// endTimeout is how long requests under way may take when the process is to end.
	endTimeout = 10 * time.Second
)

// serveTLS serves with the certificate that all replicas share, and returns once the
// address is bound. When the context ends it goes on for a while, since others learn
// late that it does, and lets the requests under way finish; m.tasks waits for that.
func (m *manager) serveTLS(ctx context.Context, name, address string, handler http.Handler, configure ...func(*tls.Config)) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--%s-bind-address: %w", name, err)
	}
	logrus.WithField("address", listener.Addr().String()).Infof("serving %s", name)
	config := m.certificates.TLSConfig()
	config.NextProtos = []string{"h2", "http/1.1"}
	for _, c := range configure {
		c(config)
	}
	// Whoever connects and speaks nonsense must not fill the log.
	complaints := logrus.StandardLogger().WriterLevel(logrus.DebugLevel)
	server := &http.Server{
		Handler: leaving(ctx, http.MaxBytesHandler(handler, maxBody)), TLSConfig: config, ErrorLog: log.New(io.Writer(complaints), name+": ", 0),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readTimeout, WriteTimeout: 2 * readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 1 << 16,
	}
	m.tasks.Go(func() error { return served(name, server.Serve(tls.NewListener(listener, config))) })
	m.tasks.Go(func() error {
		<-ctx.Done()
		<-time.After(m.options.TLS.ShutdownDelay)
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if err := server.Shutdown(ending); err != nil {
			logrus.WithError(err).Warnf("requests to %s did not finish", name)
			_ = server.Close()
		}
		_ = complaints.Close()
		return nil
	})
	return nil
}

// leaving sends clients away with their next answer once the context has ended, so that
// their connections are gone before the server closes: it closes those that are idle at
// that moment without a word, and a request that is on its way on one of them is lost.
// In HTTP/2 the header becomes a GOAWAY, after which clients repeat by themselves what
// they had sent already.
func leaving(ctx context.Context, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}

// lateHandler is bound before what it needs is there: the address of a replica is known
// from its start, its caches fill later. Until then it is not ready, and nobody is sent.
type lateHandler struct{ handler atomic.Pointer[http.Handler] }

func (l *lateHandler) set(handler http.Handler) { l.handler.Store(&handler) }

func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler := l.handler.Load(); handler != nil {
		(*handler).ServeHTTP(w, r)
		return
	}
	http.Error(w, "drydock is starting", http.StatusServiceUnavailable)
}
