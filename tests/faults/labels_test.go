package faults

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

// The manager is killed at a write of a label: the next one copies what is missing, and
// writes nothing that is there already.
func TestAManagerKilledWhileItCopiesLabelsFinishesTheJob(t *testing.T) {
	for name, kill := range map[string]struct {
		at        string
		forwarded bool
		// successor is how many writes are left to the next manager.
		successor int
	}{
		"before the VMI's write": {"/virtualmachineinstances/", false, 2},
		"after the VMI's write":  {"/virtualmachineinstances/", true, 1},
		"before the pod's write": {"/pods/", false, 1},
		"after the pod's write":  {"/pods/", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster.For(t)
			ns, p := c.Namespace(t), newProxy(t, c)
			c.VM(ns, "a").Create(t)
			first, err := manager.Launch(p.kubeconfig, "--leader-elect=false")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(first.Kill)
			if err := first.AwaitLeading(); err != nil {
				t.Fatal(err)
			}
			killed := make(chan struct{})
			var once sync.Once
			var dying atomic.Bool
			p.set(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
				if dying.Load() {
					// It may see what it wrote before it is dead.
					hangUp()
				}
				if !strings.Contains(r.URL.Path, kill.at) || r.Method != http.MethodPatch {
					forward.ServeHTTP(w, r)
					return
				}
				once.Do(func() {
					dying.Store(true)
					if kill.forwarded {
						forward.ServeHTTP(httptest.NewRecorder(), r)
					}
					first.Kill()
					close(killed)
				})
				hangUp()
			})
			labels := map[string]string{maintenance.LabelStrategy: "Shutdown"}
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"Shutdown"}}}`, maintenance.LabelStrategy)
			if _, err := c.KubeVirt.KubevirtV1().VirtualMachines(ns).Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			select {
			case <-killed:
			case <-t.Context().Done():
				t.Fatal("the manager has written nothing")
			}
			p.set(nil)
			before := p.count()

			next := manager.Start(t, p.kubeconfig, "--leader-elect=false")
			c.AwaitVMI(t, ns, "a", fmt.Sprintf("labels %v", labels), func(vmi *virtv1.VirtualMachineInstance) bool {
				return vmi.Labels[maintenance.LabelStrategy] == "Shutdown"
			})
			c.Eventually(t, "the launcher has the label", func(ctx context.Context) error {
				pods, err := c.Kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: maintenance.LabelStrategy + "=Shutdown"})
				if err == nil && len(pods.Items) != 1 {
					err = fmt.Errorf("%d pods have it", len(pods.Items))
				}
				return err
			})
			next.Kill()
			if n := p.count() - before; n != kill.successor {
				t.Errorf("the next manager wrote %d times, want %d:\n%s", n, kill.successor, next.Log())
			}
		})
	}
}
