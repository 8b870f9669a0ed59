package simulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	virtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/kubevirt"
)

// Workers per queue. They wait for the API server most of the time; more of
// them only fill its queue on a machine with two cores.
const (
	podWorkers    = 8
	vmiWorkers    = 8
	nodeWorkers   = 4
	volumeWorkers = 2
)

// Run plays every simulated host of the cluster until ctx ends.
func Run(ctx context.Context, opts Options) error {
	if err := opts.validate(); err != nil {
		return err
	}
	s, err := newSimulator(opts)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// Simulator ties the concerns together.
type simulator struct {
	log         *slog.Logger
	kube        kubernetes.Interface
	informers   informers.SharedInformerFactory
	pods        cache.SharedIndexInformer
	nodes       cache.SharedIndexInformer
	vmis        cache.SharedIndexInformer
	broadcaster record.EventBroadcaster

	hosts   *hosts
	kubelet *kubelet
	mirrors *mirrors
	handler *handler
	volumes *longhorn
	loops   []*loop
}

func newSimulator(opts Options) (*simulator, error) {
	memory, err := openMemory(opts.StateDir)
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(fast(opts.Admin, "simulator"))
	if err != nil {
		return nil, fmt.Errorf("build the Kubernetes client: %w", err)
	}
	reader, err := kubevirt.NewForConfig(fast(opts.Admin, "simulator"))
	if err != nil {
		return nil, fmt.Errorf("build the KubeVirt client: %w", err)
	}
	writer, err := kubevirt.NewForConfig(fast(opts.Handler, "virt-handler"))
	if err != nil {
		return nil, fmt.Errorf("build virt-handler's client: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(kubescheme.AddToScheme(scheme), virtv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("build the scheme for events: %w", err)
	}
	anything, err := dynamic.NewForConfig(fast(opts.Admin, "simulator"))
	if err != nil {
		return nil, fmt.Errorf("build the client for Longhorn: %w", err)
	}
	s := &simulator{log: opts.Log, kube: kube, broadcaster: record.NewBroadcaster()}
	if err := s.watch(reader); err != nil {
		return nil, err
	}
	if s.volumes, err = newLonghorn(anything, s.informers); err != nil {
		return nil, err
	}
	s.build(memory, writer, scheme)
	return s, nil
}

// fast lifts client-go's rate limit: one process acts for all hosts, and the
// API server's fairness is limit enough.
func fast(config *rest.Config, agent string) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0
	config.UserAgent = "drydock-devcluster/" + agent
	return config
}

func (s *simulator) watch(reader kubevirt.Interface) error {
	s.informers = informers.NewSharedInformerFactoryWithOptions(s.kube, 0, informers.WithTransform(withoutManagedFields))
	s.pods = s.informers.Core().V1().Pods().Informer()
	s.nodes = s.informers.Core().V1().Nodes().Informer()
	every := reader.KubevirtV1().VirtualMachineInstances(metav1.NamespaceAll)
	s.vmis = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return every.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return every.Watch(ctx, options)
		},
	}, &virtv1.VirtualMachineInstance{}, 0, vmiIndexers())
	if err := errors.Join(s.vmis.SetTransform(withoutManagedFields), s.pods.AddIndexers(podIndexers())); err != nil {
		return fmt.Errorf("prepare the informers: %w", err)
	}
	return nil
}

func (s *simulator) recorder(scheme *runtime.Scheme, component string) record.EventRecorder {
	return s.broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component})
}

func (s *simulator) build(memory *memory, writer kubevirt.Interface, scheme *runtime.Scheme) {
	registry, addresses, guests := newRegistry(memory), newAddresses(), newGuests()
	complaints := newComplaints(s.log, s.recorder(scheme, "drydock-simulator"))

	s.mirrors = &mirrors{client: s.kube, pods: s.pods.GetIndexer(), nodes: s.nodes.GetIndexer(), registry: registry}
	s.hosts = &hosts{
		client: s.kube, nodes: s.nodes.GetIndexer(), pods: s.pods.GetIndexer(), registry: registry, memory: memory,
		addresses: addresses, complaints: complaints, log: s.log, switched: s.hostSwitched,
	}
	s.kubelet = &kubelet{
		client: s.kube, pods: s.pods.GetIndexer(), nodes: s.nodes.GetIndexer(), registry: registry, addresses: addresses,
		guests: guests, complaints: complaints, events: s.recorder(scheme, "kubelet"), log: s.log,
	}
	s.handler = &handler{
		client: writer, vmis: s.vmis.GetIndexer(), pods: s.pods.GetIndexer(), registry: registry, guests: guests,
		memory: memory, complaints: complaints, events: s.recorder(scheme, "virt-handler"), log: s.log,
	}

	s.volumes.vmis, s.volumes.registry, s.volumes.complaints, s.volumes.log = s.vmis, registry, complaints, s.log

	s.mirrors.loop = newLoop("mirrors", 1, s.log, s.mirrors.reconcile)
	s.hosts.nodeLoop = newLoop("hosts", nodeWorkers, s.log, s.hosts.reconcile)
	s.hosts.beatLoop = newLoop("beats", nodeWorkers, s.log, s.hosts.beat)
	s.kubelet.loop = newLoop("pods", podWorkers, s.log, s.kubelet.reconcile)
	s.handler.loop = newLoop("vmis", vmiWorkers, s.log, s.handler.reconcile)
	s.handler.kubelet = s.kubelet.loop
	s.volumes.volumeLoop = newLoop("volumes", volumeWorkers, s.log, s.volumes.reconcile)
	s.volumes.nodeLoop = newLoop("longhorn-nodes", 1, s.log, s.volumes.reconcileNode)
	s.loops = []*loop{s.mirrors.loop, s.hosts.nodeLoop, s.hosts.beatLoop, s.kubelet.loop, s.handler.loop, s.volumes.volumeLoop, s.volumes.nodeLoop}
}

func (s *simulator) run(ctx context.Context) error {
	s.broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: s.kube.CoreV1().Events("")})
	defer s.broadcaster.Shutdown()
	s.informers.Start(ctx.Done())
	s.volumes.factory.Start(ctx.Done())
	var parts sync.WaitGroup
	parts.Go(func() { s.vmis.Run(ctx.Done()) })
	defer parts.Wait()

	if !cache.WaitForCacheSync(ctx.Done(), s.pods.HasSynced, s.nodes.HasSynced, s.vmis.HasSynced) || !s.volumes.synced(ctx) {
		return nil // ctx ended first
	}
	if err := s.recall(); err != nil {
		return err
	}
	if err := errors.Join(s.subscribe(), s.volumes.subscribe()); err != nil {
		return err
	}
	s.log.Info("simulator runs")
	for _, loop := range s.loops {
		parts.Go(func() { loop.run(ctx) })
	}
	<-ctx.Done()
	return nil
}

// recall reads back what an earlier run has left in the cluster, before the
// first worker acts: addresses in use, then hosts, then domains.
func (s *simulator) recall() error {
	var known []*corev1.Node
	for _, object := range s.nodes.GetIndexer().List() {
		if node := object.(*corev1.Node); node.Annotations[annotationHost] == wordTrue {
			s.hosts.addresses.host(node.Name, internalIP(node))
			known = append(known, node)
		}
	}
	for _, object := range s.pods.GetIndexer().List() {
		pod := object.(*corev1.Pod)
		if pod.Status.PodIP == "" || pod.Spec.HostNetwork {
			continue
		}
		if _, err := s.hosts.addresses.pod(pod.Spec.NodeName, pod.UID, pod.Status.PodIP); err != nil {
			s.log.Debug("pod keeps an address that is not ours", "pod", pod.Name, "error", err)
		}
	}
	for _, node := range known {
		if _, err := s.hosts.adopt(node, &settings{annotations: node.Annotations}); err != nil {
			return fmt.Errorf("take host %q over: %w", node.Name, err)
		}
	}
	s.handler.rebuild()
	return nil
}
