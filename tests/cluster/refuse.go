package cluster

import (
	"context"
	"errors"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Refuse makes the apiserver refuse updates of one cluster-wide object, by whomever,
// unless the CEL expression holds, until release is called or the test ends. That keeps
// the object in a step that otherwise passes too fast to be met. resource is as in RBAC:
// nodes, nodes/status. probe tries, with a dry run, a write that is to be refused.
func (c *Cluster) Refuse(t testing.TB, resource, object, expression string, probe func(context.Context) error) (release func()) {
	t.Helper()
	ctx, name, fail := t.Context(), unique("refuse-"), admissionv1.Fail
	policies, bindings := c.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies(), c.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := policies.Create(ctx, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				ResourceNames: []string{object},
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: expression, Message: "refused by a test"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bindings.Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	remove := func() {
		for _, err := range []error{
			bindings.Delete(context.Background(), name, metav1.DeleteOptions{}),
			policies.Delete(context.Background(), name, metav1.DeleteOptions{}),
		} {
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	}
	t.Cleanup(remove)
	c.Eventually(t, "the apiserver refuses the write", func(ctx context.Context) error {
		err := probe(ctx)
		switch {
		case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
			return nil
		case err == nil:
			return errors.New("it was accepted")
		}
		return err
	})
	return func() {
		remove()
		c.Eventually(t, "the apiserver accepts the write", probe)
	}
}
