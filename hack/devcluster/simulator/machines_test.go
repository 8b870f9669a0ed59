package simulator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	virtv1 "kubevirt.io/api/core/v1"
)

// A change adjusts a VM before it is created.
type change func(*virtv1.VirtualMachine)

func behaving(annotations map[string]string) change {
	return func(vm *virtv1.VirtualMachine) { maps.Copy(vm.Spec.Template.ObjectMeta.Annotations, annotations) }
}

func strategy(strategy virtv1.VirtualMachineRunStrategy) change {
	return func(vm *virtv1.VirtualMachine) { vm.Spec.RunStrategy = &strategy }
}

func grace(seconds int64) change {
	return func(vm *virtv1.VirtualMachine) { vm.Spec.Template.Spec.TerminationGracePeriodSeconds = &seconds }
}

func withClaim(claim string) change {
	return func(vm *virtv1.VirtualMachine) {
		spec := &vm.Spec.Template.Spec
		spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, virtv1.Disk{
			Name: claim, DiskDevice: virtv1.DiskDevice{Disk: &virtv1.DiskTarget{Bus: virtv1.DiskBusVirtio}},
		})
		spec.Volumes = append(spec.Volumes, virtv1.Volume{Name: claim, VolumeSource: virtv1.VolumeSource{
			PersistentVolumeClaim: &virtv1.PersistentVolumeClaimVolumeSource{
				PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			},
		}})
	}
}

// vm creates a VM on the scene's hosts; startVM also waits until it runs.
func (s *scene) vm(name string, changes ...change) {
	s.t.Helper()
	vm := &virtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
		Spec: virtv1.VirtualMachineSpec{
			RunStrategy: ptr.To(virtv1.RunStrategyRerunOnFailure),
			Template: &virtv1.VirtualMachineInstanceTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}},
				Spec: virtv1.VirtualMachineInstanceSpec{
					EvictionStrategy: ptr.To(virtv1.EvictionStrategyLiveMigrate),
					NodeSelector:     map[string]string{sceneLabel: s.namespace},
					Domain: virtv1.DomainSpec{
						Memory: &virtv1.Memory{Guest: ptr.To(resource.MustParse("128Mi"))},
						Devices: virtv1.Devices{Interfaces: []virtv1.Interface{{
							Name: "default", InterfaceBindingMethod: virtv1.InterfaceBindingMethod{Masquerade: &virtv1.InterfaceMasquerade{}},
						}}},
					},
					Networks: []virtv1.Network{*virtv1.DefaultPodNetwork()},
				},
			},
		},
	}
	for _, change := range changes {
		change(vm)
	}
	_, err := s.virt.KubevirtV1().VirtualMachines(s.namespace).Create(s.t.Context(), vm, metav1.CreateOptions{})
	s.must(err)
}

func (s *scene) startVM(name string, changes ...change) *virtv1.VirtualMachineInstance {
	s.t.Helper()
	s.vm(name, changes...)
	return s.vmiIs(name, "runs and is ready", runsReady)
}

func runsReady(vmi *virtv1.VirtualMachineInstance) bool {
	return vmi.Status.Phase == virtv1.Running && vmiCondition(vmi, virtv1.VirtualMachineInstanceReady) == corev1.ConditionTrue
}

func vmiCondition(vmi *virtv1.VirtualMachineInstance, kind virtv1.VirtualMachineInstanceConditionType) corev1.ConditionStatus {
	for _, condition := range vmi.Status.Conditions {
		if condition.Type == kind {
			return condition.Status
		}
	}
	return ""
}

// vmiIs waits until a VMI meets a condition, and returns it.
func (s *scene) vmiIs(name, what string, check func(*virtv1.VirtualMachineInstance) bool) *virtv1.VirtualMachineInstance {
	s.t.Helper()
	var vmi *virtv1.VirtualMachineInstance
	s.eventually("VMI "+name+" "+what, func(ctx context.Context) (string, bool) {
		var err error
		vmi, err = s.virt.KubevirtV1().VirtualMachineInstances(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error(), false
		}
		return fmt.Sprintf("phase %s on %s, migration %+v", vmi.Status.Phase, vmi.Status.NodeName, vmi.Status.MigrationState), check(vmi)
	})
	return vmi
}

func (s *scene) vmiGone(name string) {
	s.t.Helper()
	s.eventually("VMI "+name+" is gone", func(ctx context.Context) (string, bool) {
		_, err := s.virt.KubevirtV1().VirtualMachineInstances(s.namespace).Get(ctx, name, metav1.GetOptions{})
		return fmt.Sprint(err), apierrors.IsNotFound(err)
	})
}

// finalPhase follows a VMI by watch until it is gone, and returns the last
// phase: a final VMI of a VM lives for milliseconds.
func (s *scene) finalPhase(name string, do func()) virtv1.VirtualMachineInstancePhase {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	changes, err := s.virt.KubevirtV1().VirtualMachineInstances(s.namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	s.must(err)
	defer changes.Stop()
	do()
	for change := range changes.ResultChan() {
		if vmi, ok := change.Object.(*virtv1.VirtualMachineInstance); ok && vmi.IsFinal() {
			return vmi.Status.Phase
		}
	}
	s.t.Fatalf("VMI %s did not reach a final phase within %s", name, patience)
	return ""
}

// action calls a VM's subresource: start, stop, restart, migrate.
func (s *scene) action(name, action string, body any) {
	s.t.Helper()
	status, err := s.act(s.t.Context(), name, action, body)
	s.must(err)
	if status >= http.StatusMultipleChoices {
		s.t.Fatalf("%s of VM %s: %s", action, name, http.StatusText(status))
	}
}

// eventuallyActs repeats an action that virt-api allows only after it has read
// a change of its configuration.
func (s *scene) eventuallyActs(name, action string, body any) {
	s.t.Helper()
	s.eventually(action+" of VM "+name, func(ctx context.Context) (string, bool) {
		status, err := s.act(ctx, name, action, body)
		return fmt.Sprint(http.StatusText(status), err), err == nil && status < http.StatusMultipleChoices
	})
}

// act speaks HTTP, since KubeVirt's own client for subresources pulls in far
// more than these tests need.
func (s *scene) act(ctx context.Context, name, action string, body any) (status int, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, fmt.Errorf("encode the request: %w", err)
	}
	client, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return 0, fmt.Errorf("build the HTTP client: %w", err)
	}
	url := fmt.Sprintf("%s/apis/subresources.kubevirt.io/v1/namespaces/%s/virtualmachines/%s/%s", s.config.Host, s.namespace, name, action)
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(data))
	if err != nil {
		return 0, fmt.Errorf("build the request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("%s of VM %s: %w", action, name, err)
	}
	return response.StatusCode, response.Body.Close()
}

// launcher returns the pod in which a VMI runs.
func (s *scene) launcher(vmi *virtv1.VirtualMachineInstance) *corev1.Pod {
	s.t.Helper()
	for _, pod := range s.launchers(vmi) {
		if pod.Spec.NodeName == vmi.Status.NodeName && pod.Status.Phase == corev1.PodRunning {
			return &pod
		}
	}
	s.t.Fatalf("VMI %s has no running launcher on %s", vmi.Name, vmi.Status.NodeName)
	return nil
}

func (s *scene) launchers(vmi *virtv1.VirtualMachineInstance) []corev1.Pod {
	s.t.Helper()
	pods, err := s.kube.CoreV1().Pods(s.namespace).List(s.t.Context(), metav1.ListOptions{
		LabelSelector: virtv1.CreatedByLabel + "=" + string(vmi.UID),
	})
	s.must(err)
	return pods.Items
}

// evict asks for a pod's eviction as a drain does, and returns the answer.
func (s *scene) evict(pod *corev1.Pod) error {
	return s.kube.PolicyV1().Evictions(s.namespace).Evict(s.t.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
	})
}

// annotateVMI changes behaviour in flight; nil removes an annotation.
func (s *scene) annotateVMI(name string, annotations map[string]any) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	s.must(err)
	_, err = s.virt.KubevirtV1().VirtualMachineInstances(s.namespace).Patch(s.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	s.must(err)
}

func (s *scene) power(host, power string) {
	s.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"sim.drydock.dev/power":%q}}}`, power)
	_, err := s.kube.CoreV1().Nodes().Patch(s.t.Context(), host, types.MergePatchType, patch, metav1.PatchOptions{})
	s.must(err)
}

func (s *scene) cordon(host string) {
	s.t.Helper()
	_, err := s.kube.CoreV1().Nodes().Patch(s.t.Context(), host, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	s.must(err)
}

func (s *scene) migrations(vmi string) []virtv1.VirtualMachineInstanceMigration {
	s.t.Helper()
	list, err := s.virt.KubevirtV1().VirtualMachineInstanceMigrations(s.namespace).List(s.t.Context(), metav1.ListOptions{
		LabelSelector: virtv1.MigrationSelectorLabel + "=" + vmi,
	})
	s.must(err)
	return list.Items
}
