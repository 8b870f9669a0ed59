package nodedrain

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubectl/pkg/drain"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Owners finds the VMI and VM of a launcher pod; either is nil when there is none.
type Owners interface {
	LauncherOwner(pod *corev1.Pod) (*kubevirtv1.VirtualMachineInstance, *kubevirtv1.VirtualMachine)
}

// chooser picks the pods of one node that a drain removes, as
// `kubectl drain --ignore-daemonsets --delete-emptydir-data --force` would, without
// those that are the plan's own business. It lives as long as the node's drain and is
// used by one worker at a time.
type chooser struct {
	client kubernetes.Interface
	owners Owners
	log    logrus.FieldLogger
	// daemonSets are those that were found to exist: one lookup for each and drain.
	daemonSets map[string]*appsv1.DaemonSet
	// told are the pods that were logged as skipped.
	told map[types.UID]bool
}

func newChooser(client kubernetes.Interface, owners Owners, log logrus.FieldLogger) *chooser {
	return &chooser{client: client, owners: owners, log: log, daemonSets: map[string]*appsv1.DaemonSet{}, told: map[types.UID]bool{}}
}

func (c *chooser) choose(ctx context.Context, node string, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	helper := &drain.Helper{
		Ctx:                 ctx,
		Client:              cachedPods{Interface: c.client, pods: pods, chooser: c},
		Force:               true,
		GracePeriodSeconds:  -1,
		IgnoreAllDaemonSets: true,
		DeleteEmptyDirData:  true,
		Out:                 io.Discard,
		ErrOut:              io.Discard,
		AdditionalFilters:   []drain.PodFilter{c.skipHelpers, c.skipLaunchers},
	}
	list, errs := helper.GetPodsForDeletion(node)
	if len(errs) > 0 {
		return nil, fmt.Errorf("pods of node %s: %w", node, errs[0])
	}
	byUID := make(map[types.UID]*corev1.Pod, len(pods))
	for _, pod := range pods {
		byUID[pod.UID] = pod
	}
	var chosen []*corev1.Pod
	for _, pod := range list.Pods() {
		chosen = append(chosen, byUID[pod.UID])
	}
	slices.SortFunc(chosen, func(a, b *corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return chosen, nil
}

// skipHelpers leaves pods alone that others need to finish their work: hot-plug
// helpers hold a disk of a running guest, and the CSI sidecars detach volumes.
func (c *chooser) skipHelpers(pod corev1.Pod) drain.PodDeleteStatus {
	if app := pod.Labels["app"]; app == "csi-attacher" || app == "csi-provisioner" {
		return drain.MakePodDeleteStatusSkip()
	}
	if pod.Labels[kubevirtv1.AppLabel] == "hotplug-disk" {
		return drain.MakePodDeleteStatusSkip()
	}
	return drain.MakePodDeleteStatusOkay()
}

// skipLaunchers is the strategy-aware filter. A launcher pod whose VMI exists belongs
// to the plan of its VM, and KubeVirt removes a finished one with its VMI. One that has
// lost its VMI is a plain pod, unless its VM asks to be shut down, or was.
func (c *chooser) skipLaunchers(pod corev1.Pod) drain.PodDeleteStatus {
	if !isLauncher(&pod) {
		return drain.MakePodDeleteStatusOkay()
	}
	vmi, vm := c.owners.LauncherOwner(&pod)
	if vm != nil {
		if strategy, _, _ := maintenance.StrategyOf(vm.Labels); strategy.Stops() {
			c.tellSkipped(&pod, vm)
			return drain.MakePodDeleteStatusSkip()
		}
	}
	if vmi != nil || (vm != nil && vm.Annotations[maintenance.AnnotationVMRecord] != "") {
		return drain.MakePodDeleteStatusSkip()
	}
	return drain.MakePodDeleteStatusOkay()
}

func isLauncher(pod *corev1.Pod) bool { return pod.Labels[kubevirtv1.AppLabel] == "virt-launcher" }

// tellSkipped logs, once for each pod, a sentence that the test plan of Harvester's
// enhancement looks for, see execute.Executor.
func (c *chooser) tellSkipped(pod *corev1.Pod, vm *kubevirtv1.VirtualMachine) {
	if c.told[pod.UID] {
		return
	}
	c.told[pod.UID] = true
	c.log.WithFields(logrus.Fields{"namespace": vm.Namespace, "vm": vm.Name, "pod": pod.Name}).Infof(
		"migration of pod owned by VM %s/%s is skipped because of the label %s", vm.Namespace, vm.Name, maintenance.LabelStrategy)
}

// cachedPods answers the two questions that the filters ask of a client: the pods of
// the node, from the watch, and the DaemonSet of a pod.
type cachedPods struct {
	kubernetes.Interface
	pods    []*corev1.Pod
	chooser *chooser
}

func (c cachedPods) CoreV1() coreclient.CoreV1Interface { return cachedCore{c.Interface.CoreV1(), c} }
func (c cachedPods) AppsV1() appsclient.AppsV1Interface { return cachedApps{c.Interface.AppsV1(), c} }

type cachedCore struct {
	coreclient.CoreV1Interface
	from cachedPods
}

func (c cachedCore) Pods(namespace string) coreclient.PodInterface {
	return cachedPodList{c.CoreV1Interface.Pods(namespace), c.from}
}

type cachedPodList struct {
	coreclient.PodInterface
	from cachedPods
}

func (c cachedPodList) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	list := &corev1.PodList{Items: make([]corev1.Pod, 0, len(c.from.pods))}
	for _, pod := range c.from.pods {
		list.Items = append(list.Items, *pod)
	}
	return list, nil
}

type cachedApps struct {
	appsclient.AppsV1Interface
	from cachedPods
}

func (c cachedApps) DaemonSets(namespace string) appsclient.DaemonSetInterface {
	return cachedDaemonSets{c.AppsV1Interface.DaemonSets(namespace), namespace, c.from.chooser}
}

type cachedDaemonSets struct {
	appsclient.DaemonSetInterface
	namespace string
	chooser   *chooser
}

// Get remembers a DaemonSet that exists. That one is gone is asked anew each time: it
// makes its pods orphans, which a drain removes, and they are soon gone.
func (c cachedDaemonSets) Get(ctx context.Context, name string, opts metav1.GetOptions) (*appsv1.DaemonSet, error) {
	key := c.namespace + "/" + name
	if known := c.chooser.daemonSets[key]; known != nil {
		return known, nil
	}
	ds, err := c.DaemonSetInterface.Get(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	c.chooser.daemonSets[key] = ds
	return ds, nil
}
