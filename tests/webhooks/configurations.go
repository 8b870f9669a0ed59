// Package webhooks registers the manager's admission webhooks with a dev cluster, as an
// installation would.
package webhooks

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/webhook"
)

// LabelPassedBy is on namespaces whose VMs the webhooks do not see: what is stored there
// may be older than they are.
const LabelPassedBy = "test.drydock.dev/no-admission"

// timeoutSeconds bounds what a webhook that hangs costs each write.
const timeoutSeconds = 5

// Target is where the webhooks are served.
type Target struct {
	// Name of the configurations.
	Name string
	// Namespace and Service lead to the manager, which listens on Port itself: the dev
	// cluster has no port mapping.
	Namespace, Service string
	Port               int32
}

func (t Target) client(path string) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: t.Namespace, Name: t.Service, Path: &path, Port: &t.Port}}
}

// Mutating is the configuration of the webhooks that change objects.
func (t Target) Mutating() *admissionv1.MutatingWebhookConfiguration {
	none, timeout, again := admissionv1.SideEffectClassNone, int32(timeoutSeconds), admissionv1.IfNeededReinvocationPolicy
	hook := func(name, path string, policy admissionv1.FailurePolicyType, rule admissionv1.RuleWithOperations, conditions ...admissionv1.MatchCondition) admissionv1.MutatingWebhook {
		return admissionv1.MutatingWebhook{
			Name: name + ".mutate.drydock.dev", ClientConfig: t.client(path), Rules: []admissionv1.RuleWithOperations{rule}, MatchConditions: conditions,
			FailurePolicy: &policy, SideEffects: &none, TimeoutSeconds: &timeout, ReinvocationPolicy: &again, AdmissionReviewVersions: []string{"v1"},
		}
	}
	machines := hook("virtualmachines", webhook.PathMutateVirtualMachines, admissionv1.Fail, machineRule, notDeleted, incomplete)
	machines.NamespaceSelector = t.namespaces()
	launchers := hook("launchers", webhook.PathMutateLaunchers, admissionv1.Ignore, rule("", "pods", admissionv1.Create))
	launchers.NamespaceSelector = t.namespaces()
	launchers.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubevirt.io": "virt-launcher"}}
	nodes := hook("nodes", webhook.PathMutateNodes, admissionv1.Fail, rule("", "nodes", admissionv1.Update), matchAny("request", newAnnotations...))
	return &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: t.Name}, Webhooks: []admissionv1.MutatingWebhook{machines, launchers, nodes}}
}

// Validating is the configuration of the webhooks that refuse.
func (t Target) Validating() *admissionv1.ValidatingWebhookConfiguration {
	none, timeout, fail := admissionv1.SideEffectClassNone, int32(timeoutSeconds), admissionv1.Fail
	hook := func(name, path string, rule admissionv1.RuleWithOperations, conditions ...admissionv1.MatchCondition) admissionv1.ValidatingWebhook {
		return admissionv1.ValidatingWebhook{
			Name: name + ".validate.drydock.dev", ClientConfig: t.client(path), Rules: []admissionv1.RuleWithOperations{rule}, MatchConditions: conditions,
			FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"},
		}
	}
	machines := hook("virtualmachines", webhook.PathValidateVirtualMachines, machineRule, notDeleted, changed)
	machines.NamespaceSelector = t.namespaces()
	nodes := hook("nodes", webhook.PathValidateNodes, rule("", "nodes", admissionv1.Update), matchAny("cordon-or-request", append([]string{cordon}, newAnnotations...)...))
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: t.Name}, Webhooks: []admissionv1.ValidatingWebhook{machines, nodes}}
}

func (t Target) namespaces() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", t.Namespace}},
		{Key: LabelPassedBy, Operator: metav1.LabelSelectorOpDoesNotExist},
	}}
}

func rule(group, resource string, operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{Operations: operations, Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}}}
}

// The match conditions keep from the webhooks what they have no opinion on. They are
// evaluated in the API server, so that its heartbeats and controllers never wait for
// Drydock, and go on when it is down.
var (
	machineRule = rule("kubevirt.io", "virtualmachines", admissionv1.Create, admissionv1.Update)
	notDeleted  = admissionv1.MatchCondition{Name: "not-deleted", Expression: "!has(object.metadata.deletionTimestamp)"}

	strategyOf = func(labels string) string { return fmt.Sprintf("%s['%s']", labels, maintenance.LabelStrategy) }
	hasKey     = func(parent, field, key string) string {
		return fmt.Sprintf("(has(%s.%s) && '%s' in %s.%s)", parent, field, key, parent, field)
	}

	// incomplete: there is a strategy to write or to copy, or a marker to drop.
	incomplete = matchAny("incomplete",
		"request.operation == 'CREATE'",
		"!"+hasKey("object.metadata", "labels", maintenance.LabelStrategy),
		"!has(object.spec.template.metadata)",
		"!"+hasKey("object.spec.template.metadata", "labels", maintenance.LabelStrategy),
		strategyOf("object.metadata.labels")+" != "+strategyOf("object.spec.template.metadata.labels"),
		hasKey("object.metadata", "annotations", maintenance.AnnotationMarker),
	)
	// changed: a strategy that may be wrong, or a spec that may be unwise. Metadata and
	// status do not change the generation.
	changed = matchAny("changed",
		"request.operation == 'CREATE'",
		"object.metadata.generation != oldObject.metadata.generation",
		hasKey("object.metadata", "labels", maintenance.LabelStrategy)+" && !"+hasKey("oldObject.metadata", "labels", maintenance.LabelStrategy),
		hasKey("object.metadata", "labels", maintenance.LabelStrategy)+" && "+strategyOf("object.metadata.labels")+" != "+strategyOf("oldObject.metadata.labels"),
	)

	cordon = "has(object.spec.unschedulable) && object.spec.unschedulable && !(has(oldObject.spec.unschedulable) && oldObject.spec.unschedulable)"
	// newAnnotations: each of those that ask is there and was not, or had another value.
	newAnnotations = []string{
		newAnnotation(maintenance.AnnotationRequested), newAnnotation(maintenance.AnnotationForced), newAnnotation(maintenance.AnnotationRenamedRequested),
	}
)

func newAnnotation(key string) string {
	return fmt.Sprintf("%s && (!%s || object.metadata.annotations['%s'] != oldObject.metadata.annotations['%s'])",
		hasKey("object.metadata", "annotations", key), hasKey("oldObject.metadata", "annotations", key), key, key)
}

func matchAny(name string, alternatives ...string) admissionv1.MatchCondition {
	return admissionv1.MatchCondition{Name: name, Expression: "(" + strings.Join(alternatives, ") || (") + ")"}
}
