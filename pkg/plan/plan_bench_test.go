package plan_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// The size that planning is promised for: a node with 200 VMs among 1,000 nodes and
// 10,000 VMs, at most 10 ms for each pass.
const (
	benchNodes     = 1000
	benchVMs       = 10_000
	benchVMsOnNode = 200
)

// BenchmarkDecide is one pass over a draining node, which happens at each change of one
// of its VMs. VMs without a target are the costly ones: every other node is looked at
// for each of them.
func BenchmarkDecide(b *testing.B) {
	for _, c := range []struct {
		name    string
		without int
	}{
		{"every VM has a target", 0},
		{"one in ten VMs has no target", 10},
		{"no VM has a target", 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := benchSnapshot(c.without)
			s.Node.Annotations[maintenance.AnnotationStatus] = maintenance.StatusRunning
			record := &maintenance.NodeRecord{ID: "m", Started: metav1.NewTime(s.Now.Add(-time.Minute)), Cordoned: true, VMs: benchVMsOnNode}
			s.Node.Annotations[maintenance.AnnotationNodeRecord] = record.Encode()
			s.Node.Spec.Unschedulable = true
			s.Node.Status.Conditions = append(s.Node.Status.Conditions, corev1.NodeCondition{
				Type: maintenance.ConditionType, Status: corev1.ConditionTrue, Reason: string(maintenance.PhaseDraining),
			})
			b.ReportAllocs()
			for b.Loop() {
				p, err := plan.Decide(s)
				if err != nil || p.Face == nil || len(p.VMs) != benchVMsOnNode {
					b.Fatalf("no plan: %v", err)
				}
			}
		})
	}
}

// BenchmarkAdmit is the pass that runs the pre-checks, once for each request.
func BenchmarkAdmit(b *testing.B) {
	for _, c := range []struct {
		name    string
		without int
		phase   maintenance.Phase
	}{
		{"admitted", 0, maintenance.PhaseDraining},
		{"refused since no VM has a target", 1, maintenance.PhaseError},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := benchSnapshot(c.without)
			s.Node.Annotations[maintenance.AnnotationRequested] = "true"
			b.ReportAllocs()
			for b.Loop() {
				p, err := plan.Admit(s)
				if err != nil || p.Face == nil || p.Face.Phase != c.phase {
					b.Fatalf("not %s: %+v, %v", c.phase, p, err)
				}
			}
		})
	}
}

// benchSnapshot is the first of many nodes. One in so many of its VMs, none for 0, asks
// for a node that does not exist.
func benchSnapshot(without int) *plan.Snapshot {
	s := &plan.Snapshot{
		Now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), Name: "node-0", PodsKnown: true,
		Attempts: map[types.UID]plan.Attempt{}, Requests: map[string]corev1.ResourceList{},
		Migrations: plan.Slots{Cluster: 2, Node: 2},
		KubeVirt:   plan.KubeVirt{MigrationsPerCluster: 5, MigrationsPerNode: 2, DrainTaint: maintenance.DefaultDrainTaint},
	}
	for n := range benchNodes {
		node := benchNode(n)
		s.Nodes = append(s.Nodes, node)
		s.Requests[node.Name] = corev1.ResourceList{
			corev1.ResourceMemory: *resource.NewQuantity(benchVMs/benchNodes<<30, resource.BinarySI),
			corev1.ResourceCPU:    *resource.NewMilliQuantity(benchVMs/benchNodes*100, resource.DecimalSI),
		}
	}
	s.Node = s.Nodes[0]
	for n := range benchVMsOnNode {
		s.Instances = append(s.Instances, benchInstance(n, without > 0 && n%without == 0))
	}
	return s
}

// benchNode has as many labels as KubeVirt's node labeller gives a host.
func benchNode(n int) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("node-%d", n), UID: types.UID(fmt.Sprintf("node-%d", n)), Annotations: map[string]string{},
		Labels: map[string]string{virtv1.NodeSchedulable: "true", corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", n%3)},
	}}
	node.Labels[corev1.LabelHostname] = node.Name
	for feature := range 80 {
		node.Labels[fmt.Sprintf("cpu-feature.node.kubevirt.io/f%d", feature)] = "true"
	}
	if n < 3 {
		node.Labels["node-role.kubernetes.io/control-plane"] = "true"
	}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourceCPU: resource.MustParse("64")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

func benchInstance(n int, withoutTarget bool) plan.Instance {
	name, yes, strategy, always := fmt.Sprintf("vm-%d", n), true, virtv1.EvictionStrategyLiveMigrate, virtv1.RunStrategyAlways
	spec := virtv1.VirtualMachineInstanceSpec{EvictionStrategy: &strategy, NodeSelector: map[string]string{}}
	zones := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"zone-1", "zone-2"}}
	if withoutTarget {
		zones.Values = []string{"zone-9"}
	}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zones}}},
	}}}
	vm := &virtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("vm-" + name)}}
	vm.Spec.RunStrategy, vm.Spec.Template = &always, &virtv1.VirtualMachineInstanceTemplateSpec{Spec: spec}
	vmi := &virtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("vmi-" + name),
		OwnerReferences: []metav1.OwnerReference{{Kind: "VirtualMachine", Name: name, Controller: &yes}},
	}, Spec: spec}
	vmi.Status.Phase, vmi.Status.NodeName = virtv1.Running, "node-0"
	vmi.Status.Conditions = []virtv1.VirtualMachineInstanceCondition{{Type: virtv1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionTrue}}
	launcher := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "virt-launcher-" + name, UID: types.UID("pod-" + name)}}
	launcher.Spec.NodeName = "node-0"
	launcher.Spec.NodeSelector = map[string]string{virtv1.NodeSchedulable: "true"}
	for feature := range 10 {
		launcher.Spec.NodeSelector[fmt.Sprintf("cpu-feature.node.kubevirt.io/f%d", feature)] = "true"
	}
	return plan.Instance{VM: vm, VMI: vmi, Launchers: []*corev1.Pod{launcher}}
}
