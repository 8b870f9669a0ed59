package webhook

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

func TestWhyTheAPIServerDoesNotAskIsNamed(t *testing.T) {
	at := func(path string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: "drydock-webhook", Path: &path}}
	}
	with := func(client admissionv1.WebhookClientConfig, bundle string) admissionv1.MutatingWebhook {
		client.CABundle = []byte(bundle)
		return admissionv1.MutatingWebhook{Name: "nodes", ClientConfig: client}
	}
	url := "https://127.0.0.1:9443" + PathMutateNodes
	pods := admissionv1.MutatingWebhook{Name: "pods", ClientConfig: at(PathMutateLaunchers)}
	pods.ClientConfig.CABundle = []byte("ours")
	for name, test := range map[string]struct {
		hooks []admissionv1.MutatingWebhook
		want  string
	}{
		"registered and trusted":      {hooks: []admissionv1.MutatingWebhook{pods, with(at(PathMutateNodes), "ours")}},
		"by its address":              {hooks: []admissionv1.MutatingWebhook{with(admissionv1.WebhookClientConfig{URL: &url}, "ours")}},
		"no entry for nodes":          {hooks: []admissionv1.MutatingWebhook{pods}, want: "has no webhook with the path /mutate/nodes"},
		"an entry that leads nowhere": {hooks: []admissionv1.MutatingWebhook{with(admissionv1.WebhookClientConfig{}, "ours")}, want: "has no webhook with the path"},
		"not injected yet":            {hooks: []admissionv1.MutatingWebhook{pods, with(at(PathMutateNodes), "")}, want: "webhook nodes of the MutatingWebhookConfiguration drydock has no CA bundle"},
		"trusts somebody else":        {hooks: []admissionv1.MutatingWebhook{with(at(PathMutateNodes), "theirs"), pods}, want: "does not trust the certificate that is presented"},
		"one of two":                  {hooks: []admissionv1.MutatingWebhook{with(at(PathMutateNodes), "theirs"), with(at(PathMutateNodes), "ours")}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Uncalled("drydock", &admissionv1.MutatingWebhookConfiguration{Webhooks: test.hooks}, func(bundle []byte) bool { return string(bundle) == "ours" })
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("it says %q, want %q", got, test.want)
			}
		})
	}
	if got := Uncalled("drydock", nil, nil); got != "the MutatingWebhookConfiguration drydock does not exist" {
		t.Errorf("without a configuration it says %q", got)
	}
}
