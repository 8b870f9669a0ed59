package e2e

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	longhornv1 "github.com/longhorn/longhorn-manager/k8s/pkg/apis/longhorn/v1beta2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/tests/cluster"
)

const longhornNamespace = "longhorn-system"

var volumes = longhornv1.SchemeGroupVersion.WithResource("volumes")

// volume makes a Longhorn volume with a healthy replica on each of the hosts, and a
// claim of the given name for it. It returns the volume's name.
func volume(t *testing.T, c *cluster.Cluster, namespace, claim string, hosts ...string) string {
	t.Helper()
	ctx, name := t.Context(), namespace+"-"+claim
	size, block, none := resource.MustParse("1Gi"), corev1.PersistentVolumeBlock, ""
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	// The typed client would send every empty field, which Longhorn's schema refuses.
	_, err := c.Dynamic.Resource(volumes).Namespace(longhornNamespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": volumes.GroupVersion().String(), "kind": "Volume",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"sim.drydock.dev/replicas": strings.Join(hosts, ",")}},
		"spec":     map[string]any{"size": strconv.FormatInt(size.Value(), 10), "numberOfReplicas": int64(len(hosts))},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making the volume %s: %v", name, err)
	}
	t.Cleanup(func() { removeVolume(t, c, name) })
	_, err = c.Kube.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: size}, AccessModes: modes, VolumeMode: &block,
			ClaimRef:                      &corev1.ObjectReference{Namespace: namespace, Name: claim},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "driver.longhorn.io", VolumeHandle: name},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making the PersistentVolume %s: %v", name, err)
	}
	_, err = c.Kube.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim, Namespace: namespace},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeMode: &block, VolumeName: name, StorageClassName: &none,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making the claim %s/%s: %v", namespace, claim, err)
	}
	return name
}

func removeVolume(t *testing.T, c *cluster.Cluster, name string) {
	ctx := context.Background() // the test's own has ended
	if err := c.Longhorn.LonghornV1beta2().Volumes(longhornNamespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Logf("removing the volume %s: %v", name, err)
	}
	if err := c.Kube.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Logf("removing the PersistentVolume %s: %v", name, err)
	}
}

// awaitHealthy waits until a volume is attached, has that many healthy replicas, and
// Longhorn knows who uses it.
func awaitHealthy(t *testing.T, c *cluster.Cluster, name string, replicas int) {
	t.Helper()
	c.Eventually(t, "the volume "+name+" is in use and healthy", func(ctx context.Context) error {
		v, err := c.Longhorn.LonghornV1beta2().Volumes(longhornNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(v.Status.KubernetesStatus.WorkloadsStatus) == 0 || v.Status.State != longhornv1.VolumeStateAttached {
			return errors.New("it is " + string(v.Status.State))
		}
		list, err := c.Longhorn.LonghornV1beta2().Replicas(longhornNamespace).List(ctx, metav1.ListOptions{LabelSelector: "longhornvolume=" + name})
		if err != nil {
			return err
		}
		healthy := 0
		for i := range list.Items {
			if r := &list.Items[i]; r.Spec.VolumeName == name && r.Spec.HealthyAt != "" && r.Spec.FailedAt == "" {
				healthy++
			}
		}
		if healthy < replicas {
			return errors.New("too few replicas are healthy")
		}
		return nil
	})
}
