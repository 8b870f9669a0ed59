package app

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/rancher/lasso/pkg/cache"
	"github.com/rancher/lasso/pkg/client"
	"github.com/rancher/lasso/pkg/controller"
	"github.com/rancher/wrangler/v3/pkg/generated/controllers/core"
	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/schemes"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	kubevirtclient "kubevirt.io/client-go/kubevirt/typed/core/v1"

	"github.com/drydock-dev/drydock/pkg/certificates"
	maintenancecontroller "github.com/drydock-dev/drydock/pkg/controllers/maintenance"
	"github.com/drydock-dev/drydock/pkg/execute"
	"github.com/drydock-dev/drydock/pkg/gather"
	kubevirtcontrollers "github.com/drydock-dev/drydock/pkg/generated/controllers/kubevirt.io"
	kubevirtv1controllers "github.com/drydock-dev/drydock/pkg/generated/controllers/kubevirt.io/v1"
	"github.com/drydock-dev/drydock/pkg/harvester"
	"github.com/drydock-dev/drydock/pkg/kubevirt"
	"github.com/drydock-dev/drydock/pkg/longhorn"
	"github.com/drydock-dev/drydock/pkg/metrics"
	"github.com/drydock-dev/drydock/pkg/nodedrain"
	"github.com/drydock-dev/drydock/pkg/plan"
)

var (
	kubevirtCRDs = []string{
		"kubevirts.kubevirt.io", "virtualmachines.kubevirt.io", "virtualmachineinstances.kubevirt.io", "virtualmachineinstancemigrations.kubevirt.io",
	}
	longhornCRDs = []string{"volumes.longhorn.io", "replicas.longhorn.io", "engines.longhorn.io", "settings.longhorn.io"}
)

// workers is how many nodes, and how many VMs, are looked at at once. A pass never
// waits, so this only hides the latency of the API server.
const workers = 5

// manager is what the parts share.
type manager struct {
	options  Options
	config   *rest.Config
	kube     kubernetes.Interface
	ready    *readiness
	metrics  *metrics.Metrics
	crds     *crds
	storage  atomic.Pointer[longhorn.Reader]
	upgrades atomic.Pointer[harvester.Upgrades]

	certificates *certificates.Keeper
	webhooks     lateHandler
	api          apiParts
	// tasks are what must not end before the process does: it ends with the first that
	// fails, once the servers have finished their requests.
	tasks *errgroup.Group
}

// Run runs a manager until the context ends, or its leader lease is lost.
func Run(ctx context.Context, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	o.setUpLog()
	logrus.WithField("version", version()).Info("drydock starts")
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	// client-go's default of five requests a second is made for tools in the hands of
	// people. What Drydock sends is bounded by what happens, not by a rate.
	config.QPS, config.Burst = 200, 400
	config.UserAgent = "drydock/" + Version
	m := &manager{options: o, config: config, ready: &readiness{}, metrics: metrics.New(version(), clock.RealClock{})}
	m.metrics.HookClients()
	if m.kube, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	m.tasks, ctx = errgroup.WithContext(ctx)
	m.tasks.Go(func() error { return m.begin(ctx) })
	return m.tasks.Wait()
}

// begin binds all addresses, and runs.
func (m *manager) begin(ctx context.Context) error {
	m.ready.set("caches")
	if err := m.serve(ctx, "health", m.options.HealthAddress, healthMux(m.ready)); err != nil {
		return err
	}
	if err := m.serve(ctx, "metrics", m.options.MetricsAddress, m.metrics.Handler()); err != nil {
		return err
	}
	if err := m.keepCertificates(ctx); err != nil {
		return err
	}
	if err := m.serveWebhooks(ctx); err != nil {
		return err
	}
	if err := m.serveAPI(ctx); err != nil {
		return err
	}
	return m.run(ctx)
}

func (m *manager) run(ctx context.Context) error {
	extensions, err := apiextensions.NewForConfig(m.config)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if m.crds, err = newCRDs(ctx, extensions); err != nil {
		return err
	}
	m.ready.set("KubeVirt's CustomResourceDefinitions")
	if err := m.crds.wait(ctx, kubevirtCRDs...); err != nil {
		return nil //nolint:nilerr // The context has ended: nobody is waiting any more.
	}
	m.ready.set("caches")
	events := m.recorder(ctx)
	w, err := m.wire(ctx, events)
	if err != nil {
		return err
	}
	if err := w.start(); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // Ended while its caches were filling.
		}
		return err
	}
	go m.crds.follow(ctx, "volumes", func(ctx context.Context) error { return m.longhorn(ctx, w.controller) }, longhornCRDs...)
	go m.crds.follow(ctx, "upgrades", func(ctx context.Context) error { return m.harvester(ctx, w.controller) }, harvester.UpgradeCRD)
	go m.crds.each(ctx, w.controller.Reconsider)
	if w.admission != nil {
		m.webhooks.set(w.admission)
	}
	g := m.newGate(events, w.actors...)
	if err := m.wireAPI(ctx, w.gatherer, w.nodes, g.Idle); err != nil {
		return err
	}
	begin, err := m.besideHarvester(ctx, g)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // Ended while it was looking.
		}
		return err
	}
	m.ready.set("")
	logrus.Info("ready")
	return lead(ctx, m.kube, m.options, m.metrics, begin)
}

// wired is what wire builds.
type wired struct {
	controller *maintenancecontroller.Controller
	gatherer   *gather.Gatherer
	nodes      toolscache.SharedIndexInformer
	// admission answers the webhooks, nil when they are not served.
	admission http.Handler
	// actors are what begins to act once this replica leads.
	actors []actor
	// start fills the caches, on which all the others rest.
	start func() error
}

// wire builds the controllers and everything that they stand on.
func (m *manager) wire(ctx context.Context, events record.EventRecorder) (*wired, error) {
	factory, coreV1, kv, err := m.controllers()
	if err != nil {
		return nil, err
	}
	virt, err := kubevirtclient.NewForConfig(m.config)
	if err != nil {
		return nil, fmt.Errorf("KubeVirt client: %w", err)
	}
	reader := kubevirt.NewReader(kv, coreV1.Pod())
	kubeInformers := informers.NewSharedInformerFactory(m.kube, 0)
	budgets := kubeInformers.Policy().V1().PodDisruptionBudgets()
	memory := execute.NewMemory()
	podWatches := nodedrain.NewWatch(ctx, m.kube, reader, func(node string) { coreV1.Node().EnqueueAfter(node, 0) }, logrus.StandardLogger())

	gatherer := &gather.Gatherer{
		Machines: reader, Runs: reader, Platform: reader, Pods: podWatches, Memory: memory,
		Nodes: coreV1.Node().Cache(), LiveNodes: m.kube.CoreV1().Nodes(), LivePods: m.kube.CoreV1().Pods(metav1.NamespaceAll), VMIs: kubevirt.NewLive(virt),
		Budgets: budgets.Lister(), Storage: m.volumes,
		Upgrade: m.upgrade, Pending: m.pending, Waiting: memory.Waiting,
		PossibleIsConsent: m.possibleIsConsent,
		Clock:             clock.RealClock{},
		Config:            plan.Config{Words: m.options.words(), DrainTimeout: m.options.DrainTimeout, HonorStrategy: m.options.ForcePolicy == ForceHonorStrategy},
	}
	c := &maintenancecontroller.Controller{
		Nodes: coreV1.Node(), VMs: kv.VirtualMachine(), VMIs: kv.VirtualMachineInstance().Cache(),
		Gatherer: gatherer, Slots: gatherer, Observer: m.metrics,
		Executor: m.executor(kubevirt.NewWriter(virt), memory, events),
		Ledger:   execute.NewLedger(m.kube.CoordinationV1().Leases(m.options.Namespace)),
		Pods:     podWatches, Stopped: reader, Memory: memory, Words: gatherer.Config.Words, Log: logrus.StandardLogger(),
	}
	if err := c.Watch(coreV1.Node().Informer(), kv.VirtualMachine().Informer(), kv.VirtualMachineInstance().Informer(), kv.VirtualMachineInstanceMigration().Informer(), coreV1.Pod().Informer(), budgets.Informer()); err != nil {
		return nil, err
	}
	if err := m.measure(coreV1, kv, gatherer); err != nil {
		return nil, err
	}
	c.Register(ctx)
	w := &wired{controller: c, gatherer: gatherer, nodes: coreV1.Node().Informer(), actors: []actor{c}}
	if m.options.Webhook {
		if w.admission, err = m.admission(ctx, gatherer, coreV1.Node().Cache(), kv); err != nil {
			return nil, err
		}
	}
	labels, startLabels, err := m.labelSync(ctx, factory.SharedCacheFactory(), reader, coreV1.Pod().Informer())
	if err != nil {
		return nil, err
	}
	w.actors = append(w.actors, labels...)
	w.start = func() error {
		kubeInformers.StartWithContext(ctx)
		if !toolscache.WaitForCacheSync(ctx.Done(), budgets.Informer().HasSynced) {
			return ctx.Err()
		}
		if err := factory.Start(ctx, workers); err != nil {
			return err
		}
		return startLabels()
	}
	return w, nil
}

// executor makes what acts on the cluster.
func (m *manager) executor(writer *kubevirt.Writer, memory *execute.Memory, events record.EventRecorder) *execute.Executor {
	return execute.New(execute.Options{
		Nodes: m.kube.CoreV1().Nodes(), Machines: writer, Movers: writer, Subresources: writer, Evictor: nodedrain.NewEvictor(m.kube.PolicyV1()),
		Memory: memory, Events: events, Transitions: m.kube.CoreV1().Events(metav1.NamespaceDefault), Observer: m.metrics,
		Clock: clock.RealClock{}, Log: logrus.StandardLogger(),
	})
}

// controllers makes those of the kinds that Drydock acts on, with one set of caches.
func (m *manager) controllers() (controller.SharedControllerFactory, corecontrollers.Interface, kubevirtv1controllers.Interface, error) {
	factory, err := controllerFactory(m.config)
	if err != nil {
		return nil, nil, nil, err
	}
	options := &generic.FactoryOptions{SharedControllerFactory: factory}
	coreFactory, err := core.NewFactoryFromConfigWithOptions(m.config, options)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("core controllers: %w", err)
	}
	kubevirtFactory, err := kubevirtcontrollers.NewFactoryFromConfigWithOptions(m.config, options)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("KubeVirt controllers: %w", err)
	}
	return factory, coreFactory.Core().V1(), kubevirtFactory.Kubevirt().V1(), nil
}

// controllerFactory makes lasso's factory. Of pods only launchers are cached for the
// whole cluster.
func controllerFactory(config *rest.Config) (controller.SharedControllerFactory, error) {
	clients, err := client.NewSharedClientFactory(config, &client.SharedClientFactoryOptions{Scheme: schemes.All})
	if err != nil {
		return nil, fmt.Errorf("client factory: %w", err)
	}
	caches := cache.NewSharedCachedFactory(clients, &cache.SharedCacheFactoryOptions{
		KindTweakList: map[schema.GroupVersionKind]cache.TweakListOptionsFunc{
			corev1.SchemeGroupVersion.WithKind("Pod"): func(o *metav1.ListOptions) { o.LabelSelector = kubevirt.LauncherSelector },
		},
	})
	return controller.NewSharedControllerFactory(caches, nil), nil
}

// recorder sends events in the background; what could not be sent is logged.
func (m *manager) recorder(ctx context.Context) record.EventRecorder {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: m.kube.CoreV1().Events("")})
	return broadcaster.NewRecorder(schemes.All, corev1.EventSource{Component: "drydock"})
}
