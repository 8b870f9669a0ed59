package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// The VMs that the story waits for.
const (
	vmAfterEnable  = "cache"
	vmAfterDisable = "desktop"
)

// machine is a VM of the demo.
type machine struct {
	name     string
	strategy maintenance.Strategy
	// eviction is the owner's; without it KubeVirt's default holds, which is that an
	// eviction does not move the VM, and Drydock makes the migration itself.
	eviction kubevirtv1.EvictionStrategy
}

var machines = []machine{
	{name: "database", strategy: maintenance.StrategyMigrate, eviction: kubevirtv1.EvictionStrategyLiveMigrate},
	{name: "shop"}, // without a label, like most
	{name: "batch", strategy: maintenance.StrategyShutdown},
	{name: vmAfterEnable, strategy: maintenance.StrategyRestartAfterEnable},
	{name: vmAfterDisable, strategy: maintenance.StrategyRestartAfterDisable},
}

// populate creates the VMs on the host, and pods beside them, and waits until all run.
func (w *world) populate(ctx context.Context) error {
	// Without the namespace's service account no pod starts.
	if err := w.await(ctx, "the namespace to be usable", func() bool {
		return get[*corev1.ServiceAccount](w.accounts, namespace+"/default") != nil
	}); err != nil {
		return err
	}
	for _, m := range machines {
		if _, err := w.virt.KubevirtV1().VirtualMachines(namespace).Create(ctx, m.object(), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("VM %s: %w", m.name, err)
		}
	}
	if _, err := w.kube.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Selector: selector("web"), Template: podTemplate("web")},
	}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("deployment: %w", err)
	}
	if _, err := w.kube.AppsV1().DaemonSets(namespace).Create(ctx, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec:       appsv1.DaemonSetSpec{Selector: selector("agent"), Template: podTemplate("agent")},
	}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("daemon set: %w", err)
	}
	return w.await(ctx, "VMs and pods to run", w.populated)
}

func (w *world) populated() bool {
	for _, m := range machines {
		if !w.runs(m.name) {
			return false
		}
	}
	return w.webRuns() && len(w.nodesOf("agent")) == len(list[*corev1.Node](w.nodes))
}

// webRuns tells whether the Deployment's pod runs.
func (w *world) webRuns() bool { return len(w.nodesOf("web")) == 1 }

// nodesOf lists where an app's pods run.
func (w *world) nodesOf(app string) []string {
	var nodes []string
	for _, pod := range list[*corev1.Pod](w.pods) {
		if pod.Labels["app"] == app && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	return nodes
}

func (m machine) object() *kubevirtv1.VirtualMachine {
	always := kubevirtv1.RunStrategyAlways
	network := kubevirtv1.DefaultPodNetwork()
	template := &kubevirtv1.VirtualMachineInstanceTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		// What a real guest takes its time for; see hack/devcluster/simulator.
		"sim.drydock.dev/migration-seconds": "2",
		"sim.drydock.dev/shutdown-seconds":  "1",
	}}}
	template.Spec.Domain.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}
	// KubeVirt does not migrate VMs that are bridged to the pod network.
	template.Spec.Domain.Devices.Interfaces = []kubevirtv1.Interface{{
		Name:                   network.Name,
		InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{Masquerade: &kubevirtv1.InterfaceMasquerade{}},
	}}
	template.Spec.Networks = []kubevirtv1.Network{*network}
	template.Spec.Affinity = prefersHost()
	if m.eviction != "" {
		template.Spec.EvictionStrategy = &m.eviction
	}
	vm := &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: m.name},
		Spec:       kubevirtv1.VirtualMachineSpec{RunStrategy: &always, Template: template},
	}
	if m.strategy != "" {
		vm.Labels = map[string]string{maintenance.LabelStrategy: string(m.strategy)}
	}
	return vm
}

// prefersHost brings everything to the host at first, and lets it go elsewhere.
func prefersHost() *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}},
			}},
		}},
	}}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func podTemplate(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			Affinity:   prefersHost(),
			Containers: []corev1.Container{{Name: app, Image: app}}, // no image is pulled
		},
	}
}
