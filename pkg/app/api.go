package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v3"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/drydock-dev/drydock/pkg/api"
	"github.com/drydock-dev/drydock/pkg/api/access"
	"github.com/drydock-dev/drydock/pkg/api/feed"
	"github.com/drydock-dev/drydock/pkg/api/view"
	"github.com/drydock-dev/drydock/pkg/gather"
	"github.com/drydock-dev/drydock/pkg/harvester"
)

// APIOptions say how the API is reached.
type APIOptions struct {
	// Address is where it is served.
	Address string
	// TrustedProxies are addresses and ranges whose headers say where a request came from.
	TrustedProxies []string
}

func apiFlags(o *APIOptions) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "api-bind-address", Sources: cli.EnvVars("DRYDOCK_API_BIND_ADDRESS"), Destination: &o.Address, Value: ":8443", Usage: "`ADDRESS` of the API"},
		&cli.StringSliceFlag{Name: "api-trusted-proxies", Sources: cli.EnvVars("DRYDOCK_API_TRUSTED_PROXIES"), Destination: &o.TrustedProxies, Usage: "`ADDRESSES` and ranges, with commas between them, of proxies that may say in X-API-Host, X-Forwarded-Host, X-Forwarded-Proto and X-API-URL-Prefix where a request came from"},
	}
}

func (o *APIOptions) validate() error {
	_, err := o.proxies()
	return err
}

func (o *APIOptions) proxies() ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, value := range o.TrustedProxies {
		prefix, err := netip.ParsePrefix(value)
		if err != nil {
			address, addressErr := netip.ParseAddr(value)
			if addressErr != nil {
				return nil, fmt.Errorf("--api-trusted-proxies: %q is neither an address nor a range like 10.0.0.0/8", value)
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, nil
}

// apiParts are what the API is made of, as they become known.
type apiParts struct {
	handler lateHandler
	clients atomic.Pointer[access.Authenticator]
}

// serveAPI binds the API's address. m.api.handler answers once it is set.
func (m *manager) serveAPI(ctx context.Context) error {
	if !m.options.API {
		return nil
	}
	return m.serveTLS(ctx, "api", m.options.Actions.Address, &m.api.handler, m.api.askForCertificates)
}

// askForCertificates makes the server ask for client certificates and take any: who is
// known by one is for the API to find out. Browsers are told whose certificates make
// sense, so that they ask a person for one only if he has one of those.
func (a *apiParts) askForCertificates(config *tls.Config) {
	config.ClientAuth = tls.RequestClientCert
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		clients := a.clients.Load()
		if clients == nil {
			return nil, nil
		}
		offered := config.Clone()
		offered.ClientCAs = clients.ClientCAs()
		return offered, nil
	}
}

// What callers make the API ask of the cluster has a limit of its own, so that they never
// slow the controllers down.
const (
	apiQPS   = 400
	apiBurst = 800
)

// wireAPI sets what answers, once the caches are filled. Every replica serves, leader or
// not.
func (m *manager) wireAPI(ctx context.Context, gatherer *gather.Gatherer, nodes toolscache.SharedIndexInformer, idle func() string) error {
	if !m.options.API {
		return nil
	}
	config := rest.CopyConfig(m.config)
	config.QPS, config.Burst, config.RateLimiter = apiQPS, apiBurst, nil
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client of the API: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client of the API: %w", err)
	}
	proxies, err := m.options.Actions.proxies()
	if err != nil {
		return err
	}
	authenticator, err := access.NewAuthenticator(ctx, kube)
	if err != nil {
		return fmt.Errorf("API: %w", err)
	}
	sources := feed.NewSources(ctx, kube)
	if err := sources.Follow(&view.Nodes, nodes); err != nil {
		return fmt.Errorf("API: %w", err)
	}
	observer := *gatherer
	observer.LiveNodes = gather.NewBatch(kube.CoreV1().Nodes())
	m.api.clients.Store(authenticator)
	m.api.handler.set(api.New(ctx, &api.Config{
		Authenticator: authenticator, Authorizer: access.NewAuthorizer(kube.AuthorizationV1()),
		Nodes: kube.CoreV1().Nodes(), Observer: &observer, Feeds: sources, Hardware: harvester.NewHardware(objects),
		Words: observer.Config.Words, Idle: idle, TrustedProxies: proxies,
		Log: logrus.StandardLogger(),
	}))
	return nil
}
