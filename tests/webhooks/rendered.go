// Package webhooks registers the manager's admission webhooks with a dev cluster, as an
// installation would: with the configurations that the chart renders.
package webhooks

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// LabelPassedBy is on namespaces whose VMs the webhooks do not see: what is stored there
// may be older than they are.
const LabelPassedBy = "test.drydock.dev/no-admission"

// Target is where the webhooks are served.
type Target struct {
	// Name of the configurations.
	Name string
	// Namespace and Service lead to the manager, which listens on Port itself: the dev
	// cluster has no port mapping.
	Namespace, Service string
	Port               int32
	// Policy is the failure policy of the webhooks for which the chart leaves the
	// choice; "" for Fail, since what Ignore lets pass a test would not see.
	Policy admissionv1.FailurePolicyType
}

// alwaysOpen are the webhooks that the chart lets nobody close.
var alwaysOpen = []string{"launchers.mutate.drydock.dev", "virtualmachines-advice.validate.drydock.dev"}

// Mutating is the configuration of the webhooks that change objects.
func (t Target) Mutating() (*admissionv1.MutatingWebhookConfiguration, error) {
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	if err := rendered("MutatingWebhookConfiguration", configuration); err != nil {
		return nil, err
	}
	configuration.Name = t.Name
	for i := range configuration.Webhooks {
		hook := &configuration.Webhooks[i]
		t.adapt(hook.Name, &hook.ClientConfig, &hook.FailurePolicy, hook.NamespaceSelector)
	}
	return configuration, nil
}

// Validating is the configuration of the webhooks that refuse.
func (t Target) Validating() (*admissionv1.ValidatingWebhookConfiguration, error) {
	configuration := &admissionv1.ValidatingWebhookConfiguration{}
	if err := rendered("ValidatingWebhookConfiguration", configuration); err != nil {
		return nil, err
	}
	configuration.Name = t.Name
	for i := range configuration.Webhooks {
		hook := &configuration.Webhooks[i]
		t.adapt(hook.Name, &hook.ClientConfig, &hook.FailurePolicy, hook.NamespaceSelector)
	}
	return configuration, nil
}

func (t Target) adapt(name string, client *admissionv1.WebhookClientConfig, policy **admissionv1.FailurePolicyType, namespaces *metav1.LabelSelector) {
	client.Service.Name, client.Service.Namespace, client.Service.Port = t.Service, t.Namespace, &t.Port
	if !slices.Contains(alwaysOpen, name) {
		chosen := admissionv1.Fail
		if t.Policy != "" {
			chosen = t.Policy
		}
		*policy = &chosen
	}
	if namespaces != nil {
		namespaces.MatchExpressions = append(namespaces.MatchExpressions, metav1.LabelSelectorRequirement{Key: LabelPassedBy, Operator: metav1.LabelSelectorOpDoesNotExist})
	}
}

// rendered reads the only object of a kind from deploy/, which is the chart as `make
// verify` holds it.
func rendered(kind string, into any) error {
	_, self, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(self), "..", "..", "deploy", "drydock.yaml")
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading what the chart renders: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read from
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		var raw yamlObject
		switch err := decoder.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s: there is no %s", path, kind)
		case err != nil:
			return fmt.Errorf("%s: %w", path, err)
		case raw.kind == kind:
			return raw.into(into)
		}
	}
}
