package webhooks

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

// The dev cluster's balancer, see hack/devcluster/README.md.
const (
	backendsAnnotation  = "sim.drydock.dev/backends"
	readinessAnnotation = "sim.drydock.dev/readiness"
	portAnnotation      = "sim.drydock.dev/port"
)

// Behind makes several managers one, as a Service does: connections go in turn to those
// that say they are ready. Called again, it replaces them. It returns once a connection
// is answered, by one of those that it replaces too if they still live. The Service goes
// with t.
func Behind(t testing.TB, c *cluster.Cluster, managers ...*manager.Manager) Target {
	t.Helper()
	var backends, readiness []string
	for _, m := range managers {
		webhooks, err := m.Address("webhook")
		if err != nil {
			t.Fatal(err)
		}
		health, err := m.Address("health")
		if err != nil {
			t.Fatal(err)
		}
		backends, readiness = append(backends, webhooks), append(readiness, "http://"+health+"/readyz")
	}
	annotations := map[string]string{backendsAnnotation: strings.Join(backends, ","), readinessAnnotation: strings.Join(readiness, ",")}
	services := c.Kube.CoreV1().Services(namespace)
	_, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: service, Annotations: annotations},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	switch {
	case err == nil:
		t.Cleanup(func() {
			// The test's own context has ended.
			if err := services.Delete(context.Background(), service, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	case apierrors.IsAlreadyExists(err):
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := services.Patch(t.Context(), service, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatal(err)
	}
	target := Target{Name: Name, Namespace: namespace, Service: service}
	// Who answers is not asked: the CA may not be known yet.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	c.Eventually(t, "connections are answered", func(ctx context.Context) error {
		made, err := services.Get(ctx, service, metav1.GetOptions{})
		if err != nil {
			return err
		}
		port, err := strconv.ParseInt(made.Annotations[portAnnotation], 10, 32)
		if err != nil {
			return fmt.Errorf("%w: annotations %v", errors.New("it has no port yet"), made.Annotations)
		}
		target.Port = int32(port)
		connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("localhost", made.Annotations[portAnnotation]))
		if err != nil {
			return fmt.Errorf("through the balancer: %w", err)
		}
		return connection.Close()
	})
	return target
}
