package webhook

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// Uncalled says why the API server does not call the webhook that renames requests, by
// what it is registered with; "" when it does. The configuration of that name is nil when
// there is none, trusts reports that a CA bundle trusts the certificate that is presented.
func Uncalled(name string, configuration *admissionv1.MutatingWebhookConfiguration, trusts func(bundle []byte) bool) string {
	if configuration == nil {
		return fmt.Sprintf("the MutatingWebhookConfiguration %s does not exist", name)
	}
	why := fmt.Sprintf("the MutatingWebhookConfiguration %s has no webhook with the path %s", name, PathMutateNodes)
	for n := range configuration.Webhooks {
		hook := &configuration.Webhooks[n]
		switch bundle := hook.ClientConfig.CABundle; {
		case !leadsTo(&hook.ClientConfig, PathMutateNodes):
		case len(bundle) == 0:
			why = fmt.Sprintf("webhook %s of the MutatingWebhookConfiguration %s has no CA bundle", hook.Name, name)
		case !trusts(bundle):
			why = fmt.Sprintf("the CA bundle of webhook %s of the MutatingWebhookConfiguration %s does not trust the certificate that is presented", hook.Name, name)
		default:
			return ""
		}
	}
	return why
}

func leadsTo(client *admissionv1.WebhookClientConfig, path string) bool {
	switch {
	case client.Service != nil:
		return client.Service.Path != nil && *client.Service.Path == path
	case client.URL != nil:
		return strings.HasSuffix(*client.URL, path)
	}
	return false
}
