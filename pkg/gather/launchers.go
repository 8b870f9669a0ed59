package gather

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// launchersOf are the options that list the launcher pods on a node.
func launchersOf(node string) metav1.ListOptions {
	return metav1.ListOptions{
		LabelSelector: kubevirtv1.AppLabel + "=virt-launcher",
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	}
}

// lateAgain is when it is looked again for a VMI that is late, at the latest.
const lateAgain = 10 * time.Second

// unlag waits for a cache that is behind: launcher pods on the node whose VMI the snapshot
// does not have make it pending, unless the VMI is gone. Each kind comes by a watch of its
// own, and a busy API server may be seconds late with one of them: without this a node full
// of VMs would look empty, and their launchers like pods that nobody looks after.
func (g *Gatherer) unlag(ctx context.Context, s *plan.Snapshot, launchers []*corev1.Pod) error {
	known := make(map[types.UID]bool, len(s.Instances))
	for i := range s.Instances {
		known[s.Instances[i].VMI.UID] = true
	}
	for _, pod := range launchers {
		name := plan.VMIOf(pod)
		if name == "" || plan.PodFinal(pod) || s.Pending != "" {
			continue
		}
		uid := metav1.GetControllerOfNoCopy(pod).UID
		if known[uid] {
			continue
		}
		exists, err := g.VMIs.Exists(ctx, pod.Namespace, name, uid)
		if err != nil {
			return fmt.Errorf("VMI of launcher %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if exists {
			// A VMI that has no node yet leads to none when it comes.
			s.PendingAgain = lateAgain
			s.Pending = fmt.Sprintf("VMI %s/%s, whose launcher is on the node, is", pod.Namespace, name)
		}
	}
	return nil
}

// liveLaunchers does the same with the launchers that the API server has on the node.
func (g *Gatherer) liveLaunchers(ctx context.Context, s *plan.Snapshot) error {
	list, err := g.LivePods.List(ctx, launchersOf(s.Name))
	if err != nil {
		return fmt.Errorf("launcher pods of node %s: %w", s.Name, err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return g.unlag(ctx, s, pods)
}
