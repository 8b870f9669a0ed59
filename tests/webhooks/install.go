package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

// Name is what Drydock calls the configurations unless it is told otherwise.
const Name = "drydock"

const (
	namespace = "harvester-system"
	service   = "drydock-webhook"
)

// At is the target of a manager that serves the webhooks at an address.
func At(address string) (Target, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return Target{}, fmt.Errorf("address of the webhooks: %w", err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return Target{}, fmt.Errorf("address of the webhooks: %w", err)
	}
	return Target{Name: Name, Namespace: namespace, Service: service, Port: int32(number)}, nil
}

// Install registers the webhooks, and returns when the API server calls them and trusts
// what answers.
func Install(t testing.TB, c *cluster.Cluster, target Target) {
	t.Helper()
	ctx := t.Context()
	_, err := c.Kube.CoreV1().Services(target.Namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: target.Service},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if err := Remove(ctx, c, target.Name); err != nil {
		t.Fatal(err)
	}
	admission := c.Kube.AdmissionregistrationV1()
	mutating, err := target.Mutating()
	if err != nil {
		t.Fatal(err)
	}
	validating, err := target.Validating()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admission.MutatingWebhookConfigurations().Create(ctx, mutating, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admission.ValidatingWebhookConfigurations().Create(ctx, validating, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Register registers the webhooks of a manager, and returns once they are called.
func Register(t testing.TB, c *cluster.Cluster, m *manager.Manager, policy admissionv1.FailurePolicyType) {
	t.Helper()
	address, err := m.Address("webhook")
	if err != nil {
		t.Fatal(err)
	}
	target, err := At(address)
	if err != nil {
		t.Fatal(err)
	}
	target.Policy = policy
	Install(t, c, target)
	AwaitTrusted(t, c)
}

// AwaitTrusted returns when the manager has written its CA into the configurations and
// the API server has learnt of it: a VM that is not made is completed and validated.
func AwaitTrusted(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	admission := c.Kube.AdmissionregistrationV1()
	c.Eventually(t, "the webhooks are trusted", func(ctx context.Context) error {
		mutating, err := admission.MutatingWebhookConfigurations().Get(ctx, Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		validating, err := admission.ValidatingWebhookConfigurations().Get(ctx, Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for n := range mutating.Webhooks {
			if len(mutating.Webhooks[n].ClientConfig.CABundle) == 0 {
				return errors.New("there is no CA bundle yet")
			}
		}
		for n := range validating.Webhooks {
			if len(validating.Webhooks[n].ClientConfig.CABundle) == 0 {
				return errors.New("there is no CA bundle yet")
			}
		}
		return nil
	})
	c.Eventually(t, "the API server calls the webhooks", func(ctx context.Context) error {
		// It learns of either configuration by a watch of its own.
		made, err := probe(ctx, c, c.VM(metav1.NamespaceDefault, "probe"))
		if err != nil {
			return err
		}
		if made.Labels[maintenance.LabelStrategy] == "" {
			return errors.New("a missing strategy was not completed")
		}
		_, err = probe(ctx, c, c.VM(metav1.NamespaceDefault, "probe").Strategy("probe"))
		switch {
		case apierrors.IsInvalid(err):
			return nil
		case err == nil:
			return errors.New("a wrong strategy was accepted")
		}
		return err
	})
}

// probe makes a VM that is not stored.
func probe(ctx context.Context, c *cluster.Cluster, vm *cluster.VM) (*virtv1.VirtualMachine, error) {
	return c.KubeVirt.KubevirtV1().VirtualMachines(metav1.NamespaceDefault).Create(ctx, vm.Object(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// Clear removes the configurations of Drydock's usual name, and the Service that they name:
// nobody is to be called any more.
func Clear(ctx context.Context, c *cluster.Cluster) error {
	if err := Remove(ctx, c, Name); err != nil {
		return err
	}
	if err := c.Kube.CoreV1().Services(namespace).Delete(ctx, service, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("service of the webhooks: %w", err)
	}
	return nil
}

// Remove removes the configurations of a name.
func Remove(ctx context.Context, c *cluster.Cluster, name string) error {
	admission := c.Kube.AdmissionregistrationV1()
	for _, err := range []error{
		admission.MutatingWebhookConfigurations().Delete(ctx, name, metav1.DeleteOptions{}),
		admission.ValidatingWebhookConfigurations().Delete(ctx, name, metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("webhook configurations: %w", err)
		}
	}
	return nil
}
