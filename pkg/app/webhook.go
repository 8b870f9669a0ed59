package app

import (
	"context"

	"github.com/drydock-dev/drydock/pkg/webhook"
)

// serveWebhooks binds the webhooks' address. m.webhooks answers once it is set.
func (m *manager) serveWebhooks(ctx context.Context) error {
	if !m.options.Webhook {
		return nil
	}
	measured := m.metrics.Webhook(&m.webhooks, webhook.PathMutateVirtualMachines, webhook.PathValidateVirtualMachines,
		webhook.PathMutateLaunchers, webhook.PathMutateNodes, webhook.PathValidateNodes)
	return m.serveTLS(ctx, "webhook", m.options.TLS.WebhookAddress, measured)
}
