package app

import "context"

// serveWebhooks binds the webhooks' address. m.webhooks answers once it is set.
func (m *manager) serveWebhooks(ctx context.Context) error {
	if !m.options.Webhook {
		return nil
	}
	return m.serveTLS(ctx, "webhook", m.options.TLS.WebhookAddress, m.metrics.Webhook(&m.webhooks))
}

// wireWebhooks sets what answers.
func (m *manager) wireWebhooks() {
	if m.admissionHandler != nil {
		m.webhooks.set(m.admissionHandler)
	}
}
