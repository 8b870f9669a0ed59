package simulator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
)

func TestVolumeFollowsItsVM(t *testing.T) {
	s := newScene(t, 2)
	volume := s.volume("data", s.hosts...)
	s.longhornIs("volumes", volume, "is detached", field("detached", "status", "state"))

	before := s.startVM("vm", withClaim("data"))
	s.longhornIs("volumes", volume, "is attached and healthy where the VM is", func(object *unstructured.Unstructured) bool {
		workloads, _, _ := unstructured.NestedSlice(object.Object, "status", "kubernetesStatus", "workloadsStatus")
		return field("attached", "status", "state")(object) && field("healthy", "status", "robustness")(object) &&
			field(before.Status.NodeName, "status", "currentNodeID")(object) && field("data", "status", "kubernetesStatus", "pvcName")(object) &&
			len(workloads) == 1 && workloads[0].(map[string]any)["workloadName"] == "vm"
	})
	s.action("vm", "migrate", struct{}{})
	after := s.vmiIs("vm", "has moved", movedFrom(before))
	s.longhornIs("volumes", volume, "has moved along", field(after.Status.NodeName, "status", "currentNodeID"))
	s.longhornIs("engines", volume+"-e-0", "runs there", func(object *unstructured.Unstructured) bool {
		modes, _, _ := unstructured.NestedStringMap(object.Object, "status", "replicaModeMap")
		return field(after.Status.NodeName, "spec", "nodeID")(object) && field("running", "status", "currentState")(object) && len(modes) == 2
	})
	s.action("vm", "stop", struct{}{})
	s.vmiGone("vm")
	s.longhornIs("volumes", volume, "is detached and remembers its VM", func(object *unstructured.Unstructured) bool {
		at, _, _ := unstructured.NestedString(object.Object, "status", "kubernetesStatus", "lastPodRefAt")
		return field("detached", "status", "state")(object) && field("", "status", "currentNodeID")(object) && at != ""
	})
}

func TestReplicaStates(t *testing.T) {
	s := newScene(t, 2)
	volume := s.volume("data", s.hosts...)
	vmi := s.startVM("vm", withClaim("data"))
	other := s.hosts[0]
	if other == vmi.Status.NodeName {
		other = s.hosts[1]
	}
	s.longhornIs("volumes", volume, "is healthy", field("healthy", "status", "robustness"))
	replica := s.replicaOn(volume, other)
	for _, step := range []struct{ state, mode, robustness string }{
		{"rebuilding", "WO", "degraded"}, {"failed", "ERR", "degraded"}, {"stopped", "", "degraded"}, {"healthy", "RW", "healthy"},
	} {
		s.annotateReplica(replica, step.state)
		s.longhornIs("engines", volume+"-e-0", "sees the replica "+step.state, field(step.mode, "status", "replicaModeMap", replica))
		s.longhornIs("volumes", volume, "is "+step.robustness, field(step.robustness, "status", "robustness"))
		s.longhornIs("replicas", replica, "says "+step.state, func(object *unstructured.Unstructured) bool {
			failedAt, _, _ := unstructured.NestedString(object.Object, "spec", "failedAt")
			healthyAt, _, _ := unstructured.NestedString(object.Object, "spec", "healthyAt")
			return (failedAt != "") == (step.state == "failed") && (healthyAt == "") == (step.state == "rebuilding")
		})
	}

	s.power(other, "off")
	s.longhornIs("engines", volume+"-e-0", "has lost the replica on the dead host", field("ERR", "status", "replicaModeMap", replica))
	s.longhornIs("volumes", volume, "is degraded", field("degraded", "status", "robustness"))
	s.longhornIs("nodes", other, "is not ready", longhornReady("False"))
	s.power(other, "on")
	s.longhornIs("volumes", volume, "is healthy again", field("healthy", "status", "robustness"))
	s.longhornIs("nodes", other, "is ready", longhornReady("True"))
}

// volume follows the recipe of README.md.
func (s *scene) volume(claim string, hosts ...string) string {
	s.t.Helper()
	name := s.namespace + "-" + claim
	_, err := s.longhorn("volumes").Create(s.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "longhorn.io/v1beta2", "kind": "Volume",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"sim.drydock.dev/replicas": strings.Join(hosts, ",")}},
		"spec":     map[string]any{"size": "1073741824", "numberOfReplicas": int64(len(hosts))},
	}}, metav1.CreateOptions{})
	s.must(err)
	s.t.Cleanup(func() {
		ctx := context.Background()
		_ = s.longhorn("volumes").Delete(ctx, name, metav1.DeleteOptions{})
		_ = s.kube.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{})
	})
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	_, err = s.kube.CoreV1().PersistentVolumes().Create(s.t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, VolumeMode: ptr.To(corev1.PersistentVolumeBlock),
			ClaimRef: &corev1.ObjectReference{Namespace: s.namespace, Name: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "driver.longhorn.io", VolumeHandle: name,
			}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	_, err = s.kube.CoreV1().PersistentVolumeClaims(s.namespace).Create(s.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeMode: ptr.To(corev1.PersistentVolumeBlock), VolumeName: name,
			StorageClassName: ptr.To(""), Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	return name
}

func (s *scene) longhorn(resource string) dynamic.ResourceInterface {
	return s.dynamic.Resource(schema.GroupVersionResource{Group: "longhorn.io", Version: "v1beta2", Resource: resource}).Namespace("longhorn-system")
}

func (s *scene) longhornIs(resource, name, what string, check func(*unstructured.Unstructured) bool) {
	s.t.Helper()
	s.eventually(resource+" "+name+" "+what, func(ctx context.Context) (string, bool) {
		object, err := s.longhorn(resource).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error(), false
		}
		return fmt.Sprintf("spec %v, status %v", object.Object["spec"], object.Object["status"]), check(object)
	})
}

func field(wanted string, path ...string) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		value, _, err := unstructured.NestedString(object.Object, path...)
		return err == nil && value == wanted
	}
}

func longhornReady(wanted string) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, condition := range conditions {
			if content, ok := condition.(map[string]any); ok && content["type"] == "Ready" {
				return content["status"] == wanted
			}
		}
		return false
	}
}

func (s *scene) replicaOn(volume, host string) string {
	s.t.Helper()
	list, err := s.longhorn("replicas").List(s.t.Context(), metav1.ListOptions{LabelSelector: "longhornvolume=" + volume})
	s.must(err)
	for i := range list.Items {
		if field(host, "spec", "nodeID")(&list.Items[i]) {
			return list.Items[i].GetName()
		}
	}
	s.t.Fatalf("volume %s has no replica on %s", volume, host)
	return ""
}

func (s *scene) annotateReplica(name, state string) {
	s.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"sim.drydock.dev/state":%q}}}`, state)
	_, err := s.longhorn("replicas").Patch(s.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	s.must(err)
}
