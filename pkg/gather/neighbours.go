package gather

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// Machines finds virtual machines.
type Machines interface {
	Instances(node string) ([]plan.Instance, error)
	Stopped(node string) ([]plan.StoppedVM, error)
	StoppedVM(vm *kubevirtv1.VirtualMachine) (*plan.StoppedVM, error)
}

// Runs tells whether a VMI exists and has not ended: Longhorn goes on naming the last
// workload of a volume after it is gone.
type Runs interface {
	Runs(namespace, name string) bool
}

// Platform tells how KubeVirt is configured, how busy it is, and what each node's
// launchers request.
type Platform interface {
	Config() (plan.KubeVirt, error)
	Slots(node string, sent map[types.NamespacedName]string) (plan.Slots, error)
	Requests() (map[string]corev1.ResourceList, error)
}

// Nodes lists nodes from a cache.
type Nodes interface {
	List(selector labels.Selector) ([]*corev1.Node, error)
}

// LiveNodes lists nodes from the API server.
type LiveNodes interface {
	List(ctx context.Context, opts metav1.ListOptions) (*corev1.NodeList, error)
}

// LivePods lists pods from the API server.
type LivePods interface {
	List(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error)
}

// VMIs tells of the API server whether a VMI exists.
type VMIs interface {
	Exists(ctx context.Context, namespace, name string, uid types.UID) (bool, error)
}

// Pods watches the pods of a node. Those that a drain removes are known once all were
// listed, and with them the launchers that are there.
type Pods interface {
	Pods(ctx context.Context, node string) (pods []*corev1.Pod, known bool, err error)
	Launchers(node string) []*corev1.Pod
}

// Budgets finds the disruption budgets that select a pod; client-go's lister serves.
// It answers with an error when there is none.
type Budgets interface {
	GetPodPodDisruptionBudgets(pod *corev1.Pod) ([]*policyv1.PodDisruptionBudget, error)
}

// Storage finds volumes; nil while Longhorn is not installed.
type Storage interface {
	Volumes(node string, claims []types.NamespacedName) ([]plan.Volume, error)
	// Holds says why the storage keeps a pod of its own from being evicted, "" for any
	// other pod.
	Holds(pod *corev1.Pod) (string, error)
}

// Memory is what this process remembers of what it has done.
type Memory interface {
	Attempts() map[types.UID]plan.Attempt
	Sent(now time.Time) map[types.NamespacedName]string
	Recall(v *plan.StoppedVM)
}
