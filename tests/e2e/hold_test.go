package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
)

// The apiserver holds a node in a step that otherwise passes too fast to be met: it
// refuses the write that would end the step, to whomever, until it is released.

// holdBefore keeps a node from showing a phase.
func holdBefore(t *testing.T, c *cluster.Cluster, node string, phase maintenance.Phase) (release func()) {
	t.Helper()
	expression := fmt.Sprintf("!object.status.conditions.exists(c, c.type == '%s' && c.reason == '%s')", maintenance.ConditionType, phase)
	probe := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"Unknown","reason":%q}]}}`, maintenance.ConditionType, phase)
	return hold(t, c, "nodes/status", node, expression, func(ctx context.Context) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(probe), dryRun, "status")
		return err
	})
}

// holdCordoned keeps a node that is cordoned from being uncordoned.
func holdCordoned(t *testing.T, c *cluster.Cluster, node string) (release func()) {
	t.Helper()
	return hold(t, c, "nodes", node, "has(object.spec.unschedulable) && object.spec.unschedulable", func(ctx context.Context) error {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(`{"spec":{"unschedulable":null}}`), dryRun)
		return err
	})
}

var dryRun = metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}

func hold(t *testing.T, c *cluster.Cluster, resource, object, expression string, probe func(context.Context) error) (release func()) {
	t.Helper()
	ctx, name, fail := t.Context(), "hold-"+rand.String(6), admissionv1.Fail
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
			Validations: []admissionv1.Validation{{Expression: expression, Message: "held by a test"}},
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
