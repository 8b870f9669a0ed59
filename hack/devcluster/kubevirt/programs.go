package kubevirt

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"

	"github.com/drydock-dev/drydock/hack/devcluster/controlplane"
	"github.com/drydock-dev/drydock/hack/devcluster/process"
)

// Component names, as `status`, logs and errors show them.
const (
	VirtAPI        = components.VirtAPIName
	VirtController = components.VirtControllerName
)

// virtAPIGrace is short because virt-api sleeps five seconds after SIGTERM, for
// the sake of a load balancer that is not there.
const virtAPIGrace = 200 * time.Millisecond

// Accounts of KubeVirt's parts.
const (
	APIAccount        = components.ApiServiceAccountName
	ControllerAccount = components.ControllerServiceAccountName
	HandlerAccount    = components.HandlerServiceAccountName
)

// VirtAPI describes the process; config carries the token of APIAccount.
func (i *Installer) VirtAPI(program string, config *rest.Config, port int) (process.Spec, error) {
	return i.spec(VirtAPI, program, config, virtAPIGrace,
		"--listen=127.0.0.1",
		"--port="+strconv.Itoa(port),
		// Otherwise it also serves plain resources, which the CRDs do.
		"--subresources-only",
		"--tls-cert-file="+i.certs.cert(components.VirtApiCertSecretName),
		"--tls-key-file="+i.certs.key(components.VirtApiCertSecretName),
		"--handler-cert-file="+i.certs.cert(components.VirtHandlerCertSecretName),
		"--handler-key-file="+i.certs.key(components.VirtHandlerCertSecretName),
	)
}

// VirtController describes the process; config carries the token of ControllerAccount.
func (i *Installer) VirtController(program string, config *rest.Config, port int) (process.Spec, error) {
	return i.spec(VirtController, program, config, time.Second,
		"--listen=127.0.0.1",
		"--port="+strconv.Itoa(port),
		"--launcher-image="+launcherImage,
		"--exporter-image="+exporterImage,
		"--prom-cert-file="+i.certs.cert(components.VirtControllerCertSecretName),
		"--prom-key-file="+i.certs.key(components.VirtControllerCertSecretName),
		// It is alone, and gives up when it cannot renew: a laptop that slept or
		// a machine under load must not end the cluster.
		"--leader-elect-lease-duration=10m",
		"--leader-elect-renew-deadline=9m",
	)
}

func (i *Installer) spec(name, program string, config *rest.Config, grace time.Duration, args ...string) (process.Spec, error) {
	kubeconfig := filepath.Join(i.dir.Run(), name+".kubeconfig")
	if err := controlplane.WriteKubeconfig(config, name, kubeconfig); err != nil {
		return process.Spec{}, err
	}
	return process.Spec{
		Name: name, Path: program,
		Args: append(args, "--kubeconfig="+kubeconfig, "-v="+strconv.FormatUint(uint64(i.verbosity), 10)),
		Env:  controlplane.Environment(i.dir), Dir: i.dir.Run(), Log: i.dir.Log(name), Grace: grace,
	}, nil
}

// VirtAPIListening probes virt-api itself, without the apiserver between.
func (i *Installer) VirtAPIListening(port int) func(context.Context) error {
	return controlplane.Probe(fmt.Sprintf("https://127.0.0.1:%d/healthz", port), serverName(components.VirtApiServiceName), i.certs.roots)
}

// VirtControllerLeads tells whether virt-controller works. Its /leader answers 200
// in any case; only the body says.
func (i *Installer) VirtControllerLeads(port int) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		RootCAs: i.certs.roots, ServerName: serverName(components.VirtControllerServiceName), MinVersion: tls.VersionTLS12,
	}}}
	url := fmt.Sprintf("https://127.0.0.1:%d/leader", port)
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
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return fmt.Errorf("probing: %w", err)
		}
		if compact := strings.Join(strings.Fields(string(body)), ""); !strings.Contains(compact, `"leader":"true"`) {
			return fmt.Errorf("virt-controller does not lead: %s", compact)
		}
		return nil
	}
}

func serverName(service string) string { return service + "." + Namespace + ".svc" }
