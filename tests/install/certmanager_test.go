package install

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// With cert-manager the manager reads the Secret that the Certificate names, and writes
// nothing; the injector finds the CA by the webhook configurations' annotation. That such a
// Secret is served and followed is seen in tests/serving.
func TestWithCertManagerNobodyElseKeepsCertificates(t *testing.T) {
	t.Parallel()
	flags := []string{"--set", "tls.source=certManager,tls.secretName=theirs"}
	if args := arguments(t, flags...); !slices.Contains(args, "--tls-source=secret") || !slices.Contains(args, "--tls-secret=theirs") {
		t.Errorf("the manager is told %v", args)
	}
	objects := render(t, flags...)
	index := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		secret, _, _ := unstructured.NestedString(o.Object, "spec", "secretName")
		return o.GetKind() == "Certificate" && secret == "theirs"
	})
	if index < 0 {
		t.Fatal("no Certificate is to be kept in the Secret theirs")
	}
	certificate := objects[index]
	names, _, err := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
	for _, service := range []string{"drydock-webhook", "drydock-api"} {
		if name := service + "." + namespace + ".svc"; err != nil || !slices.Contains(names, name) {
			t.Errorf("the Certificate is not for %s: %v %v", name, names, err)
		}
	}
	configurations := 0
	for _, o := range objects {
		if !strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
			continue
		}
		configurations++
		if got, want := o.GetAnnotations()["cert-manager.io/inject-ca-from"], namespace+"/"+certificate.GetName(); got != want {
			t.Errorf("%s: the CA is injected from %q, not %q", o.GetKind(), got, want)
		}
		hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
		if err != nil || len(hooks) == 0 {
			t.Errorf("%s: no webhooks: %v", o.GetKind(), err)
		}
		for _, hook := range hooks {
			webhook, _ := hook.(map[string]any)
			if _, set, err := unstructured.NestedFieldNoCopy(webhook, "clientConfig", "caBundle"); set || err != nil {
				t.Errorf("%s %v: the chart sets a CA bundle, which an upgrade would put in the place of the injected one (%v)", o.GetKind(), webhook["name"], err)
			}
		}
	}
	if configurations != 2 {
		t.Errorf("there are %d webhook configurations, not 2", configurations)
	}
	for _, right := range granted(t, objects) {
		if right.resource == "mutatingwebhookconfigurations" && right.verb == "patch" || right.resource == "secrets" && right.verb != "list" && right.verb != "watch" {
			t.Errorf("the manager may %s", right)
		}
	}
}
