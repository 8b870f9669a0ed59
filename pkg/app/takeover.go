package app

import (
	"context"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/drydock-dev/drydock/pkg/metrics"
	"github.com/drydock-dev/drydock/pkg/webhook"
)

const (
	passedByNote = "--harvester=takeover takes nothing over: new requests for maintenance reach Harvester's controllers, or are refused, since "
	takenOver    = "new requests for maintenance reach Drydock again"
)

// takeover tells while new requests reach Harvester's controllers although Drydock is to
// serve them: nobody renames them, since the webhook that does is not registered, or not
// trusted. A single request that went there says so too late.
type takeover struct {
	name    string
	trusts  func(bundle []byte) bool
	waiting func() string
	metrics *metrics.Metrics
	events  record.EventRecorder
	lease   *coordinationv1.Lease

	mu         sync.Mutex
	registered admissionlisters.MutatingWebhookConfigurationLister
	leading    bool
	why        string
}

// watchTakeover begins to look, and returns what is called once this replica leads.
func (m *manager) watchTakeover(ctx context.Context, events record.EventRecorder, lease *coordinationv1.Lease) (lead func(), err error) {
	t := &takeover{
		name: m.options.TLS.WebhookConfiguration, trusts: m.certificates.TrustedBy, waiting: m.certificates.Waiting,
		metrics: m.metrics, events: events, lease: lease,
	}
	factory := informers.NewSharedInformerFactoryWithOptions(m.kube, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, t.name).String()
	}))
	configurations := factory.Admissionregistration().V1().MutatingWebhookConfigurations()
	if _, err := configurations.Informer().AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { t.look() }, UpdateFunc: func(any, any) { t.look() }, DeleteFunc: func(any) { t.look() },
	}); err != nil {
		return nil, fmt.Errorf("watch of the webhook configuration: %w", err)
	}
	m.ready.note(t.warning)
	m.ready.set("the webhook configuration")
	factory.StartWithContext(ctx)
	if !toolscache.WaitForCacheSync(ctx.Done(), configurations.Informer().HasSynced) {
		return nil, fmt.Errorf("watch of the webhook configuration: %w", ctx.Err())
	}
	t.mu.Lock()
	t.registered = configurations.Lister()
	t.mu.Unlock()
	m.certificates.OnServed(t.look)
	t.look()
	return t.lead, nil
}

// lead repeats for the events what has been said before.
func (t *takeover) lead() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leading = true
	if t.why != "" {
		t.events.Event(t.lease, corev1.EventTypeWarning, "NotTakingOver", passedByNote+t.why)
	}
}

// look compares what is registered with what is presented. Both change by themselves.
func (t *takeover) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.registered == nil || t.waiting() != "" {
		return
	}
	configuration, err := t.registered.Get(t.name)
	if apierrors.IsNotFound(err) {
		configuration = nil
	} else if err != nil {
		logrus.WithError(err).Error("reading the webhook configuration")
		return
	}
	why := webhook.Uncalled(t.name, configuration, t.trusts)
	if why == t.why {
		return
	}
	t.why = why
	t.say()
}

// warning says why requests pass Drydock by, "" while they do not.
func (t *takeover) warning() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.why == "" {
		return ""
	}
	return passedByNote + t.why
}

func (t *takeover) say() {
	kind, reason, text := corev1.EventTypeWarning, "NotTakingOver", passedByNote+t.why
	if t.why == "" {
		kind, reason, text = corev1.EventTypeNormal, "TakingOver", takenOver
	}
	t.metrics.PassedBy(t.why != "")
	logrus.Warn(text)
	if t.leading {
		t.events.Event(t.lease, kind, reason, text)
	}
}
