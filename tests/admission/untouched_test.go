package admission

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
	poolv1 "kubevirt.io/api/pool/v1beta1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/operator"
)

// Whatever KubeVirt, its users and other controllers do to a VM whose strategy is wrong
// since before the webhooks, is none of the webhooks' business.
func TestAnOldWrongStrategyIsInNobodysWay(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	allowHotplug(t, c)
	claim(t, c, ns, "extra")
	outside(t, c, ns, operator.Movable(c, ns, "a", pool).Strategy("foobar").RunStrategy(virtv1.RunStrategyAlways))
	client := c.KubeVirt.KubevirtV1().VirtualMachines(ns)
	patch := func(kind types.PatchType, body string, subresources ...string) func() error {
		return func() error {
			_, err := client.Patch(t.Context(), "a", kind, []byte(body), metav1.PatchOptions{FieldManager: "test"}, subresources...)
			return err
		}
	}
	vmi := operator.AwaitRunningOn(t, c, ns, "a", pool.Hosts...)
	for _, step := range []struct {
		what  string
		do    func() error
		until func()
	}{
		// It also keeps the deletion from being over at once.
		{"a finalizer", patch(types.MergePatchType, `{"metadata":{"finalizers":["kubevirt.io/virtualMachineControllerFinalize","test.drydock.dev/hold"]}}`), nil},
		{"an annotation by JSON patch", patch(types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations/a","value":"b"}]`), nil},
		{"another label by merge patch", patch(types.MergePatchType, `{"metadata":{"labels":{"a":"b"}}}`), nil},
		{"the status", patch(types.MergePatchType, `{"status":{"printableStatus":"Running"}}`, "status"), nil},
		{"a full update", func() error {
			vm := operator.GetVM(t, c, ns, "a")
			grace := int64(11)
			vm.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
			_, err := client.Update(t.Context(), vm, metav1.UpdateOptions{})
			if apierrors.IsConflict(err) {
				return errAgain
			}
			return err
		}, nil},
		{"server-side apply of a label", patch(types.ApplyPatchType, `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a","labels":{"c":"d"}}}`), nil},
		{"expanding the spec", func() error { _, err := client.GetWithExpandedSpec(t.Context(), "a"); return err }, nil},
		{"adding a volume", func() error {
			return client.AddVolume(t.Context(), "a", &virtv1.AddVolumeOptions{
				Name: "extra", Disk: &virtv1.Disk{Name: "extra", DiskDevice: virtv1.DiskDevice{Disk: &virtv1.DiskTarget{Bus: virtv1.DiskBusSCSI}}},
				VolumeSource: &virtv1.HotplugVolumeSource{PersistentVolumeClaim: &virtv1.PersistentVolumeClaimVolumeSource{
					PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "extra"}, Hotpluggable: true,
				}},
			})
		}, func() {
			c.AwaitVM(t, ns, "a", "the volume is in its template", func(vm *virtv1.VirtualMachine) bool { return settled(vm, 1) })
		}},
		{"removing it", func() error {
			return client.RemoveVolume(t.Context(), "a", &virtv1.RemoveVolumeOptions{Name: "extra"})
		}, func() {
			c.AwaitVM(t, ns, "a", "the volume is gone from its template", func(vm *virtv1.VirtualMachine) bool { return settled(vm, 0) })
		}},
		{"migrating it", func() error { return client.Migrate(t.Context(), "a", &virtv1.MigrateOptions{}) }, func() {
			operator.AwaitRunningOn(t, c, ns, "a", pool.Host(1))
			c.AwaitVMI(t, ns, "a", "the migration has ended", func(vmi *virtv1.VirtualMachineInstance) bool {
				return vmi.Status.MigrationState != nil && vmi.Status.MigrationState.Completed && cluster.IsRunning(vmi)
			})
		}},
		{"restarting it", func() error { return client.Restart(t.Context(), "a", &virtv1.RestartOptions{}) }, func() {
			c.AwaitVMI(t, ns, "a", "another instance runs", func(now *virtv1.VirtualMachineInstance) bool { return now.UID != vmi.UID && cluster.IsRunning(now) })
		}},
		{"stopping it", func() error { return client.Stop(t.Context(), "a", &virtv1.StopOptions{}) }, func() { c.AwaitNoVMI(t, ns, "a") }},
		{"starting it", func() error { return client.Start(t.Context(), "a", &virtv1.StartOptions{}) }, func() {
			operator.AwaitRunningOn(t, c, ns, "a", pool.Hosts...)
		}},
		{"deleting it", func() error { return client.Delete(t.Context(), "a", metav1.DeleteOptions{}) }, func() { c.AwaitNoVMI(t, ns, "a") }},
		{"taking the finalizer off while it is being deleted", func() error {
			return patch(types.JSONPatchType, `[{"op":"replace","path":"/metadata/finalizers","value":[]}]`)()
		}, func() {
			c.Eventually(t, "the VM is gone", func(ctx context.Context) error {
				_, err := client.Get(ctx, "a", metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return fmt.Errorf("it is there: %w", err)
			})
		}},
	} {
		c.Eventually(t, step.what, func(context.Context) error {
			err := step.do()
			// KubeVirt's own patches test what they have read.
			if apierrors.IsConflict(err) || apierrors.IsInternalError(err) || errors.Is(err, errAgain) {
				return err
			}
			if err != nil {
				t.Fatalf("%s is refused: %v", step.what, err)
			}
			return nil
		})
		if step.until != nil {
			step.until()
		}
		if vm, err := client.Get(t.Context(), "a", metav1.GetOptions{}); err == nil && vm.Labels[maintenance.LabelStrategy] != "foobar" {
			t.Errorf("after %s its strategy is %q", step.what, vm.Labels[maintenance.LabelStrategy])
		}
	}
}

var errAgain = errors.New("somebody else has written meanwhile")

// allowHotplug switches KubeVirt's feature on; nobody here minds.
func allowHotplug(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	patch := []byte(`{"spec":{"configuration":{"developerConfiguration":{"featureGates":["HotplugVolumes"]}}}}`)
	if _, err := c.KubeVirt.KubevirtV1().KubeVirts("kubevirt").Patch(t.Context(), "kubevirt", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// claim makes a bound claim that VMs on several hosts can use.
func claim(t *testing.T, c *cluster.Cluster, namespace, name string) {
	t.Helper()
	mode, class := corev1.PersistentVolumeBlock, ""
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume, err := c.Kube.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, VolumeMode: &mode,
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "test.drydock.dev", VolumeHandle: namespace + "-" + name}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Kube.CoreV1().PersistentVolumes().Delete(context.Background(), volume.Name, metav1.DeleteOptions{})
	})
	_, err = c.Kube.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, VolumeMode: &mode, StorageClassName: &class, VolumeName: volume.Name,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "the claim is bound", func(ctx context.Context) error {
		claim, err := c.Kube.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && claim.Status.Phase != corev1.ClaimBound {
			err = fmt.Errorf("it is %s", claim.Status.Phase)
		}
		return err
	})
}

func TestVMsWithoutANameOfTheirOwnAreCompleted(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns := c.Namespace(t)
	vm := c.VM(ns, "").RunStrategy(virtv1.RunStrategyHalted).Change(func(vm *virtv1.VirtualMachine) {
		vm.GenerateName, vm.Labels, vm.Spec.Template.ObjectMeta = "made-", nil, metav1.ObjectMeta{}
	}).Submit(t)
	if got := strategies(vm); got != [2]string{"Migrate", "Migrate"} {
		t.Errorf("stored with %q", got)
	}
}

// A pool's VMs are made by virt-controller from a template that says nothing of Drydock.
func TestVMsOfAControllerAreCompleted(t *testing.T) {
	t.Parallel()
	c := admitted(t)
	ns := c.Namespace(t)
	template := c.VM(ns, "x").RunStrategy(virtv1.RunStrategyHalted).Label("pool", "p").Object()
	replicas := int32(2)
	_, err := c.KubeVirt.PoolV1beta1().VirtualMachinePools(ns).Create(t.Context(), &poolv1.VirtualMachinePool{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: poolv1.VirtualMachinePoolSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "p"}},
			VirtualMachineTemplate: &poolv1.VirtualMachineTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "two completed VMs", func(ctx context.Context) error {
		list, err := c.KubeVirt.KubevirtV1().VirtualMachines(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != 2 {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		for n := range list.Items {
			if got := strategies(&list.Items[n]); got != [2]string{"Migrate", "Migrate"} {
				t.Fatalf("stored with %q", got)
			}
		}
		return nil
	})
}

// settled reports a VM whose template has so many volumes, and whose requests for more or
// less have been served: virt-api's patch of the next one tests that they are as it has
// read them, and is refused when KubeVirt's controller takes one away meanwhile.
func settled(vm *virtv1.VirtualMachine, volumes int) bool {
	return len(vm.Spec.Template.Spec.Volumes) == volumes && len(vm.Status.VolumeRequests) == 0
}
