package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// VM is a VirtualMachine under construction.
type VM struct {
	cluster *Cluster
	object  *virtv1.VirtualMachine
	host    string
}

// VM begins a VM that runs (RunStrategy Always), has little memory, and can
// migrate. It exists after Create.
func (c *Cluster) VM(namespace, name string) *VM {
	always := virtv1.RunStrategyAlways
	network := virtv1.DefaultPodNetwork()
	template := &virtv1.VirtualMachineInstanceTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}},
	}
	template.Spec.Domain.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	template.Spec.Domain.Devices.Interfaces = []virtv1.Interface{{
		Name:                   network.Name,
		InterfaceBindingMethod: virtv1.InterfaceBindingMethod{Masquerade: &virtv1.InterfaceMasquerade{}},
	}}
	template.Spec.Networks = []virtv1.Network{*network}
	return &VM{cluster: c, object: &virtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Spec: virtv1.VirtualMachineSpec{RunStrategy: &always, Template: template},
	}}
}

// Strategy sets the maintenance strategy's label on the VM and, as the webhook does, on
// its template, from where each new VMI has it.
func (v *VM) Strategy(strategy string) *VM {
	v.object.Spec.Template.ObjectMeta.Labels[maintenance.LabelStrategy] = strategy
	return v.Label(maintenance.LabelStrategy, strategy)
}

// Label puts a label on the VM.
func (v *VM) Label(key, value string) *VM {
	v.object.Labels[key] = value
	return v
}

// AnnotateVM puts an annotation on the VM itself.
func (v *VM) AnnotateVM(key, value string) *VM {
	v.object.Annotations[key] = value
	return v
}

// Annotate puts an annotation on the VM's template, where the simulator's belong:
// each VMI gets them.
func (v *VM) Annotate(key, value string) *VM {
	v.object.Spec.Template.ObjectMeta.Annotations[key] = value
	return v
}

// RunStrategy sets spec.runStrategy.
func (v *VM) RunStrategy(strategy virtv1.VirtualMachineRunStrategy) *VM {
	v.object.Spec.RunStrategy, v.object.Spec.Running = &strategy, nil
	return v
}

// Running sets spec.running, the older form that excludes a run strategy.
func (v *VM) Running(running bool) *VM {
	v.object.Spec.RunStrategy, v.object.Spec.Running = nil, &running
	return v
}

// EvictionStrategy sets the template's eviction strategy.
func (v *VM) EvictionStrategy(strategy virtv1.EvictionStrategy) *VM {
	v.object.Spec.Template.Spec.EvictionStrategy = &strategy
	return v
}

// Claim adds a disk from a PersistentVolumeClaim, which the test creates.
func (v *VM) Claim(name string) *VM {
	spec := &v.object.Spec.Template.Spec
	spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, virtv1.Disk{
		Name: name, DiskDevice: virtv1.DiskDevice{Disk: &virtv1.DiskTarget{Bus: virtv1.DiskBusVirtio}},
	})
	claim := &virtv1.PersistentVolumeClaimVolumeSource{}
	claim.ClaimName = name
	spec.Volumes = append(spec.Volumes, virtv1.Volume{
		Name: name, VolumeSource: virtv1.VolumeSource{PersistentVolumeClaim: claim},
	})
	return v
}

// Change is for everything that has no method of its own.
func (v *VM) Change(change func(*virtv1.VirtualMachine)) *VM {
	change(v.object)
	return v
}

// PinnedTo keeps the VM on the hosts of a pool.
func (v *VM) PinnedTo(pool *Pool) *VM {
	node := v.nodeAffinity()
	node.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{matches(poolLabel, pool.Label)},
	}
	return v
}

// On makes the VM start on a host. It is a preference of the scheduler's highest
// weight and no more, so the VM can migrate; Create checks that it was followed.
// The VM prefers that host at every later start as well.
func (v *VM) On(host string) *VM {
	v.host = host
	v.nodeAffinity().PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
		{Weight: 100, Preference: matches(corev1.LabelHostname, host)},
	}
	return v
}

func (v *VM) nodeAffinity() *corev1.NodeAffinity {
	spec := &v.object.Spec.Template.Spec
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	}
	return spec.Affinity.NodeAffinity
}

func matches(label, value string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{value}},
	}}
}

// Object is the VM as it would be created.
func (v *VM) Object() *virtv1.VirtualMachine { return v.object.DeepCopy() }

// Submit creates the VM and waits for nothing, for tests that make many.
func (v *VM) Submit(t testing.TB) *virtv1.VirtualMachine {
	t.Helper()
	made, err := v.cluster.KubeVirt.KubevirtV1().VirtualMachines(v.object.Namespace).Create(t.Context(), v.object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making the VM %s: %v", v.object.Name, err)
	}
	return made
}

// Create creates the VM and, if it is one that runs, waits until it does and
// checks that it is where On wants it. It returns the VM as it is then.
func (v *VM) Create(t testing.TB) *virtv1.VirtualMachine {
	t.Helper()
	made := v.Submit(t)
	if !v.runs() {
		return made
	}
	v.AwaitRunning(t)
	return v.cluster.AwaitVM(t, made.Namespace, made.Name, "the VM knows that it runs", func(vm *virtv1.VirtualMachine) bool {
		return vm.Status.PrintableStatus == virtv1.VirtualMachineStatusRunning
	})
}

// AwaitRunning waits until the VM's instance runs and is ready, and checks that it
// is where On wants it.
func (v *VM) AwaitRunning(t testing.TB) *virtv1.VirtualMachineInstance {
	t.Helper()
	vmi := v.cluster.AwaitVMI(t, v.object.Namespace, v.object.Name, "the VM runs", IsRunning)
	if v.host != "" && vmi.Status.NodeName != v.host {
		v.cluster.Dump(t)
		t.Fatalf("the VM %s started on %s instead of %s", v.object.Name, vmi.Status.NodeName, v.host)
	}
	return vmi
}

func (v *VM) runs() bool {
	if running := v.object.Spec.Running; running != nil {
		return *running
	}
	switch *v.object.Spec.RunStrategy {
	case virtv1.RunStrategyAlways, virtv1.RunStrategyRerunOnFailure, virtv1.RunStrategyOnce:
		return true
	default: // Halted, Manual and WaitAsReceiver start nothing
		return false
	}
}

// IsRunning tells whether the instance runs and virt-controller knows that it is
// ready; only then is its node name final and an eviction understood.
func IsRunning(vmi *virtv1.VirtualMachineInstance) bool {
	if vmi.Status.Phase != virtv1.Running || vmi.Status.NodeName == "" {
		return false
	}
	for _, condition := range vmi.Status.Conditions {
		if condition.Type == virtv1.VirtualMachineInstanceReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
