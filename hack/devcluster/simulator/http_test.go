package simulator_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// kubeHTTP is a bare client with the cluster's credentials: KubeVirt's own for
// subresources pulls in far more than these tests need.
func kubeHTTP(config *rest.Config) (*http.Client, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build the HTTP client: %w", err)
	}
	return client, nil
}

func bytesReader(data []byte) io.Reader { return bytes.NewReader(data) }
