package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
)

// Probe returns a check that the URL answers 200. Without roots the server's
// certificate is not verified: kube-controller-manager and kube-scheduler sign
// their own, nothing secret is sent, and the port is one that only they can have.
func Probe(url, serverName string, roots *x509.CertPool) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{
			RootCAs: roots, ServerName: serverName,
			InsecureSkipVerify: roots == nil,
		},
		DisableKeepAlives: true,
	}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("building a probe: %w", err)
		}
		response, err := client.Do(request)
		if err != nil {
			return fmt.Errorf("probing: %w", err)
		}
		defer response.Body.Close() //nolint:errcheck // read only
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}

// APIServerReady probes the API server. /readyz, and the /healthz of the others, are
// open to the anonymous user by default.
func (c Config) APIServerReady() func(context.Context) error {
	return Probe(c.Server()+"/readyz", "", nil)
}

// ControllerManagerReady see APIServerReady.
func (c Config) ControllerManagerReady() func(context.Context) error {
	return Probe(loopback("https", c.ControllerManagerPort)+"/healthz", "", nil)
}

// SchedulerReady see APIServerReady.
func (c Config) SchedulerReady() func(context.Context) error {
	return Probe(loopback("https", c.SchedulerPort)+"/readyz", "", nil)
}
