package install

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
	"github.com/drydock-dev/drydock/tests/webhooks"
)

// forget removes what the manager makes itself, as the README says.
func forget(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx := context.Background()
	leases := c.Kube.CoordinationV1().Leases(namespace)
	for _, err := range []error{
		c.Kube.CoreV1().Secrets(namespace).Delete(ctx, "drydock-tls", metav1.DeleteOptions{}),
		leases.Delete(ctx, "drydock", metav1.DeleteOptions{}), leases.Delete(ctx, "drydock-admission", metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}

func deployed(t *testing.T, c *cluster.Cluster) *appsv1.Deployment {
	t.Helper()
	deployment, err := c.Kube.AppsV1().Deployments(namespace).Get(t.Context(), release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return deployment
}

// replica runs a manager as a pod of the Deployment would: with its arguments and its
// account. Only where it listens is another, since all pods are one machine here.
func replica(t *testing.T, c *cluster.Cluster, flags ...string) *manager.Manager {
	t.Helper()
	deployment := deployed(t, c)
	args := slices.Clone(deployment.Spec.Template.Spec.Containers[0].Args)
	args = slices.DeleteFunc(args, func(arg string) bool { return strings.Contains(arg, "-bind-address=:") })
	kubeconfig := c.AccountKubeconfig(t, namespace, deployment.Spec.Template.Spec.ServiceAccountName)
	m, err := manager.Launch(kubeconfig, append(args, append([]string{"--log-format=json", "--log-level=debug", "--shutdown-delay=0s",
		"--webhook-bind-address=127.0.0.1:0", "--api-bind-address=127.0.0.1:0"}, flags...)...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Kill()
		if t.Failed() {
			t.Logf("a manager's log:\n%s", m.Log())
		}
	})
	if _, err := m.AwaitLine(func(l manager.Line) bool { return l.Message == "ready" }); err != nil {
		t.Fatal(err)
	}
	return m
}

// bundles are the CA bundles of the chart's webhooks.
func bundles(ctx context.Context, c *cluster.Cluster) ([][]byte, error) {
	var all [][]byte
	admission := c.Kube.AdmissionregistrationV1()
	mutating, err := admission.MutatingWebhookConfigurations().Get(ctx, release, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for i := range mutating.Webhooks {
		all = append(all, mutating.Webhooks[i].ClientConfig.CABundle)
	}
	validating, err := admission.ValidatingWebhookConfigurations().Get(ctx, release, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for i := range validating.Webhooks {
		all = append(all, validating.Webhooks[i].ClientConfig.CABundle)
	}
	return all, nil
}

// point makes the webhooks call the port on which the dev cluster's balancer listens for
// the chart's Service: there is no port mapping.
func point(t *testing.T, c *cluster.Cluster, port int32) {
	t.Helper()
	count, err := bundles(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	admission := c.Kube.AdmissionregistrationV1()
	mutating, err := admission.MutatingWebhookConfigurations().Get(t.Context(), release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	body := func(n int) []byte {
		var patch []map[string]any
		for i := range n {
			patch = append(patch, map[string]any{"op": "replace", "path": fmt.Sprintf("/webhooks/%d/clientConfig/service/port", i), "value": port})
		}
		raw, err := json.Marshal(patch)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if _, err := admission.MutatingWebhookConfigurations().Patch(t.Context(), release, types.JSONPatchType, body(len(mutating.Webhooks)), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admission.ValidatingWebhookConfigurations().Patch(t.Context(), release, types.JSONPatchType, body(len(count)-len(mutating.Webhooks)), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// hosts are the nodes on which the Deployment's pods run.
func hosts(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	list, err := c.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + release})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for i := range list.Items {
		if pod := &list.Items[i]; pod.DeletionTimestamp == nil && pod.Status.Phase == "Running" {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return nodes
}

func TestInstallUpgradeRollbackUninstall(t *testing.T) {
	c := cluster.For(t)
	notes := install(t, c)
	for _, want := range []string{"kubectl annotate node", "kubectl wait node/", "helm uninstall", "Its image is drydock:dev, which no registry has"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %q:\n%s", want, notes)
		}
	}
	if got := hosts(t, c); !slices.Equal(got, []string{"cp1", "cp2", "cp3"}) {
		t.Errorf("the replicas run on %v", got)
	}
	first, second := replica(t, c), replica(t, c)
	var trusted [][]byte
	c.Eventually(t, "the webhooks trust the CA", func(ctx context.Context) (err error) {
		if trusted, err = bundles(ctx, c); err == nil && slices.ContainsFunc(trusted, func(b []byte) bool { return len(b) == 0 }) {
			err = errors.New("there are webhooks without CA bundle")
		}
		return err
	})
	unchanged := func(after string) {
		t.Helper()
		now, err := bundles(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(now, trusted, bytes.Equal) {
			t.Errorf("after the %s the webhooks trust somebody else", after)
		}
	}

	if output, err := helm(t, c, "upgrade", release, chart, "--namespace", namespace, "--wait", "--timeout", "3m",
		"--set", "replicas=2,drain.timeout=1h,webhooks.timeoutSeconds=2,webhooks.failurePolicy.virtualMachineValidate=Fail"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	deployment := deployed(t, c)
	if *deployment.Spec.Replicas != 2 || !slices.Contains(deployment.Spec.Template.Spec.Containers[0].Args, "--drain-timeout=1h") {
		t.Errorf("upgraded, there are %d replicas of %v", *deployment.Spec.Replicas, deployment.Spec.Template.Spec.Containers[0].Args)
	}
	unchanged("upgrade")
	if output, err := helm(t, c, "rollback", release, "1", "--namespace", namespace, "--wait", "--timeout", "3m"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	deployment = deployed(t, c)
	if *deployment.Spec.Replicas != 3 || !slices.Contains(deployment.Spec.Template.Spec.Containers[0].Args, "--drain-timeout=0s") {
		t.Errorf("rolled back, there are %d replicas of %v", *deployment.Spec.Replicas, deployment.Spec.Template.Spec.Containers[0].Args)
	}
	unchanged("rollback")

	// The webhooks are reached by the chart's Service, whose backends are the replicas.
	point(t, c, webhooks.Behind(t, c, first, second).Port)
	webhooks.AwaitTrusted(t, c)
	answers(t, c, trusted[0], first, second)
	drainOwnHost(t, c)

	uninstall(t, c)
	gone(t, c)
	// What the webhooks refused is nobody's business any more.
	c.VM(metav1.NamespaceDefault, "probe").Strategy("probe").Change(func(vm *virtv1.VirtualMachine) {
		if _, err := c.KubeVirt.KubevirtV1().VirtualMachines(metav1.NamespaceDefault).Create(t.Context(), vm, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("without Drydock a VM cannot be made: %v", err)
		}
	})
}

// answers asks the API by the chart's Service, whose backends are the replicas, and expects
// the certificate that the CA of the webhooks has signed for the Service's name.
func answers(t *testing.T, c *cluster.Cluster, bundle []byte, replicas ...*manager.Manager) {
	t.Helper()
	var backends []string
	for _, m := range replicas {
		address, err := m.Address("api")
		if err != nil {
			t.Fatal(err)
		}
		backends = append(backends, address)
	}
	services := c.Kube.CoreV1().Services(namespace)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"sim.drydock.dev/backends":%q}}}`, strings.Join(backends, ","))
	if _, err := services.Patch(t.Context(), "drydock-api", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "drydock-api." + namespace + ".svc"}}}
	c.Eventually(t, "the API answers", func(ctx context.Context) error {
		service, err := services.Get(ctx, "drydock-api", metav1.GetOptions{})
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:"+service.Annotations["sim.drydock.dev/port"]+"/v1/harvester/nodes", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		// Nobody in particular asks.
		if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusUnauthorized {
			return fmt.Errorf("it answers %d: %w", response.StatusCode, err)
		}
		return nil
	})
}

// drainOwnHost takes a host on which a replica runs into maintenance and back.
func drainOwnHost(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	operator.Request(t, c, "cp2")
	operator.AwaitPhase(t, c, "cp2", maintenance.PhaseCompleted)
	c.Eventually(t, "all replicas run elsewhere", func(context.Context) error {
		if got := hosts(t, c); len(got) != 3 || slices.Contains(got, "cp2") {
			return fmt.Errorf("they run on %v", got)
		}
		return nil
	})
	operator.Leave(t, c, "cp2")
	operator.AwaitOut(t, c, "cp2")
}

// gone checks that nothing of the release is left.
func gone(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	lists, err := c.Kube.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		for i := range list.APIResources {
			r := &list.APIResources[i]
			// Events and endpoints follow by themselves, pods when they have ended.
			if !slices.Contains(r.Verbs, "list") || slices.Contains([]string{"events", "endpoints", "endpointslices", "pods", "replicasets"}, r.Name) {
				continue
			}
			version, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				t.Fatal(err)
			}
			found, err := c.Dynamic.Resource(version.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + release})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for n := range found.Items {
				t.Errorf("%s %s is left", r.Kind, found.Items[n].GetName())
			}
		}
	}
}
