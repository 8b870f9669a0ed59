package api

import (
	"crypto/tls"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/drydock-dev/drydock/tests/manager"
)

type managerLine = manager.Line

// frontProxy is a caller with the certificate of the cluster's front proxy.
func (h *house) frontProxy(t *testing.T) *caller {
	t.Helper()
	pki := filepath.Join(h.StateDir, "pki")
	certificate, err := tls.LoadX509KeyPair(filepath.Join(pki, "front-proxy-client.crt"), filepath.Join(pki, "front-proxy-client.key"))
	if err != nil {
		t.Fatal(err)
	}
	return &caller{house: h, name: "front proxy", client: h.client(t, certificate), header: http.Header{}}
}
