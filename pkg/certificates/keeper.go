package certificates

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// Options are the settings of a Keeper.
type Options struct {
	// Namespace and Secret name the Secret that all replicas share.
	Namespace, Secret string
	// Foreign says that somebody else keeps the Secret: it is only read, and webhook
	// configurations are left alone.
	Foreign bool
	// Configuration names the MutatingWebhookConfiguration and the
	// ValidatingWebhookConfiguration that are to trust the CA; "" for none.
	Configuration string
	// Hosts are the names and addresses that the certificate must be valid for.
	Hosts     []string
	Lifetimes Lifetimes
	Clock     clock.WithTicker
	Log       logrus.FieldLogger
}

// Keeper keeps the serving certificate of one replica, and with all others the Secret
// and the webhook configurations.
type Keeper struct {
	options Options
	rules   rules
	client  kubernetes.Interface
	queue   workqueue.TypedRateLimitingInterface[struct{}]
	log     logrus.FieldLogger

	secrets    corelisters.SecretNamespaceLister
	mutating   admissionlisters.MutatingWebhookConfigurationLister
	validating admissionlisters.ValidatingWebhookConfigurationLister

	served atomic.Pointer[served]
	// onServed is called when another certificate is presented.
	onServed atomic.Pointer[func()]
	// The rest belongs to the one worker.
	memory   known
	reported []string
}

// served is what this replica presents.
type served struct {
	certificate *tls.Certificate
	pair        *pair
}

// New returns a Keeper that does nothing yet, see Run.
func New(client kubernetes.Interface, o Options) *Keeper {
	return &Keeper{
		options: o, client: client, log: o.Log.WithField("secret", o.Namespace+"/"+o.Secret),
		rules: rules{lifetimes: o.Lifetimes, hosts: o.Hosts},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[struct{}](100*time.Millisecond, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[struct{}]{Name: "certificates", Clock: o.Clock}),
	}
}

// Run keeps the certificate until the context ends. It watches the Secret and the
// configurations by their names, so that neither other Secrets are read nor the right to
// do so is needed.
func (k *Keeper) Run(ctx context.Context) error {
	only := func(name string) informers.SharedInformerOption {
		return informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		})
	}
	factory := informers.NewSharedInformerFactoryWithOptions(k.client, 0, informers.WithNamespace(k.options.Namespace), only(k.options.Secret))
	secrets := factory.Core().V1().Secrets()
	k.secrets = secrets.Lister().Secrets(k.options.Namespace)
	watched := []cache.SharedIndexInformer{secrets.Informer()}
	factories := []informers.SharedInformerFactory{factory}
	if k.options.Configuration != "" && !k.options.Foreign {
		factory := informers.NewSharedInformerFactoryWithOptions(k.client, 0, only(k.options.Configuration))
		admission := factory.Admissionregistration().V1()
		k.mutating, k.validating = admission.MutatingWebhookConfigurations().Lister(), admission.ValidatingWebhookConfigurations().Lister()
		watched = append(watched, admission.MutatingWebhookConfigurations().Informer(), admission.ValidatingWebhookConfigurations().Informer())
		factories = append(factories, factory)
	}
	var synced []cache.InformerSynced
	for _, informer := range watched {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { k.queue.Add(struct{}{}) },
			UpdateFunc: func(any, any) { k.queue.Add(struct{}{}) },
			DeleteFunc: func(any) { k.queue.Add(struct{}{}) },
		}); err != nil {
			return fmt.Errorf("watching certificates: %w", err)
		}
		synced = append(synced, informer.HasSynced)
	}
	for _, factory := range factories {
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
	}
	stop := context.AfterFunc(ctx, k.queue.ShutDown)
	defer stop()
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	k.queue.Add(struct{}{}) // There may be nothing to watch yet.
	for k.work(ctx) {
	}
	return nil
}

// errRaced says that somebody else was faster. What they did comes by the watch.
var errRaced = errors.New("another replica was faster")

func (k *Keeper) work(ctx context.Context) bool {
	item, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(item)
	wake, err := k.pass(ctx)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errRaced):
		k.log.WithError(err).Debug("the certificates are looked at again")
		k.queue.AddRateLimited(item)
	case err != nil:
		k.log.WithError(err).Error("the certificates are not as they should be; tried again soon")
		k.queue.AddRateLimited(item)
	default:
		k.queue.Forget(item)
		if !wake.IsZero() {
			k.queue.AddAfter(item, wake.Sub(k.options.Clock.Now()))
		}
	}
	return true
}

// pass brings the Secret, what is served and the configurations one step further, and
// returns when time alone will ask for the next.
func (k *Keeper) pass(ctx context.Context) (wake time.Time, err error) {
	secret, err := k.secrets.Get(k.options.Secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return wake, fmt.Errorf("reading the Secret: %w", err)
	}
	if err != nil {
		secret = nil
	}
	if k.options.Foreign {
		return k.follow(secret)
	}
	targets, err := k.targets()
	if err != nil {
		return wake, err
	}
	configurations := make([]configuration, 0, len(targets))
	for _, t := range targets {
		configurations = append(configurations, t.configuration)
	}
	d, err := k.rules.decide(k.options.Clock.Now(), k.options.Namespace, k.options.Secret, secret, configurations, k.memory)
	if err != nil {
		return wake, err
	}
	k.report(d.complaints)
	if d.secret != nil {
		if secret, err = k.write(ctx, d.secret); err != nil {
			return wake, err
		}
		for _, sentence := range d.done {
			k.log.Info("certificates: " + sentence)
		}
	}
	if err := k.serve(d.serving); err != nil {
		return wake, err
	}
	k.memory = known{serving: d.serving, bundle: d.bundle}
	return d.wake, k.inject(ctx, secret, targets)
}

// report says once what is wrong.
func (k *Keeper) report(complaints []string) {
	if !slices.Equal(complaints, k.reported) {
		for _, complaint := range complaints {
			k.log.Warn("certificates: " + complaint)
		}
	}
	k.reported = complaints
}

func (k *Keeper) write(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
	client := k.client.CoreV1().Secrets(k.options.Namespace)
	var written *corev1.Secret
	var err error
	if secret.ResourceVersion == "" {
		written, err = client.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		written, err = client.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && secret.ResourceVersion != "" {
		return nil, fmt.Errorf("%w: %w", errRaced, err)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the Secret: %w", err)
	}
	return written, nil
}

// follow serves what somebody else keeps.
func (k *Keeper) follow(secret *corev1.Secret) (wake time.Time, err error) {
	now := k.options.Clock.Now()
	if secret == nil {
		k.report([]string{"the Secret does not exist"})
		return wake, nil
	}
	p, complaint := readPair(secret.Data[keyServingCert], secret.Data[keyServingKey], now, false)
	if p == nil {
		// What is presented now may be better, and is not worse.
		k.report([]string{fmt.Sprintf("serving certificate (%s, %s): %s", keyServingCert, keyServingKey, complaint)})
		return wake, nil
	}
	// API servers call a Service by this one of its names.
	called := slices.DeleteFunc(slices.Clone(k.rules.hosts), func(host string) bool { return !strings.HasSuffix(host, ".svc") })
	var complaints []string
	if !covers(p.cert, called) {
		complaints = append(complaints, fmt.Sprintf("the serving certificate is for %q and not for all of %q", hostsOf(p.cert), called))
	}
	k.report(complaints)
	return p.cert.NotAfter, k.serve(p)
}
