package simulator_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	virtv1 "kubevirt.io/api/core/v1"
)

// ScaleVMs names the environment variable with the number of VMs to start, on
// the hosts that the cluster has. It is a measurement and not for every run.
const scaleVMs = "DRYDOCK_SCALE_VMS"

func TestScale(t *testing.T) {
	count, _ := strconv.Atoi(os.Getenv(scaleVMs))
	if count == 0 {
		t.Skipf("measures only with %s set", scaleVMs)
	}
	s := &scene{devcluster: cluster(t), t: t}
	namespace, err := s.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "scale-"}}, metav1.CreateOptions{})
	s.must(err)
	s.namespace = namespace.Name
	t.Cleanup(s.clear)
	begin := time.Now()
	for i := range count {
		s.vm(fmt.Sprintf("vm-%03d", i), func(vm *virtv1.VirtualMachine) { vm.Spec.Template.Spec.NodeSelector = nil })
	}
	created := time.Since(begin)
	var running int
	err = wait.PollUntilContextTimeout(t.Context(), time.Second, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := s.virt.KubevirtV1().VirtualMachineInstances(s.namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, nil //nolint:nilerr // Asked again.
		}
		running = 0
		for i := range list.Items {
			if runsReady(&list.Items[i]) {
				running++
			}
		}
		return running == count, nil
	})
	t.Logf("%d VMs created in %.0f s, %d running and ready after %.0f s", count, created.Seconds(), running, time.Since(begin).Seconds())
	s.must(err)
}
