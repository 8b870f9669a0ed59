package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drydock-dev/drydock/tests/cluster"
)

func seconds(n int64) *int64 { return &n }

// plainPod is a pod that was bound to a host by hand.
func plainPod(namespace, name, host string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"pod": name}},
		Spec:       podSpec(host),
	}
}

func podSpec(host string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName: host, Containers: []corev1.Container{{Name: "main", Image: "main"}},
		TerminationGracePeriodSeconds: seconds(1),
	}
}

// createPods makes pods and waits until they run, or have ended.
func createPods(t *testing.T, c *cluster.Cluster, pods ...*corev1.Pod) map[string]*corev1.Pod {
	t.Helper()
	made := map[string]*corev1.Pod{}
	for _, pod := range pods {
		if _, err := c.Kube.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range pods {
		made[pod.Name] = awaitPod(t, c, pod.Namespace, pod.Name, func(pod *corev1.Pod) bool {
			switch {
			case pod.Annotations["sim.drydock.dev/exit-after-seconds"] != "":
				return pod.Status.Phase == corev1.PodSucceeded
			case pod.Annotations["sim.drydock.dev/ready"] == "false":
				return pod.Status.Phase == corev1.PodRunning
			}
			return podIsReady(pod)
		})
	}
	return made
}

func podIsReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func awaitPod(t *testing.T, c *cluster.Cluster, namespace, name string, condition func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	c.Eventually(t, "the pod "+namespace+"/"+name, func(ctx context.Context) error {
		pod, err := c.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && !condition(pod) {
			err = fmt.Errorf("its phase is %q", pod.Status.Phase)
		}
		found = pod
		return err
	})
	return found
}

// awaitPodOf waits for a pod with a label on a host.
func awaitPodOf(t *testing.T, c *cluster.Cluster, namespace, label, host string, condition func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	eventually(t, c, "a pod with "+label+" on "+host, func() bool {
		list, err := c.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: label})
		if err != nil {
			t.Fatal(err)
		}
		for n := range list.Items {
			if pod := &list.Items[n]; pod.Spec.NodeName == host && pod.DeletionTimestamp == nil && condition(pod) {
				found = pod
				return true
			}
		}
		return false
	})
	return found
}

// budget makes a disruption budget for the pods with a label and waits until its
// controller has counted.
func budget(t *testing.T, c *cluster.Cluster, namespace, name string, selects map[string]string, change func(*policyv1.PodDisruptionBudgetSpec)) *policyv1.PodDisruptionBudget {
	t.Helper()
	none := intstr.FromInt32(0)
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: selects}, MaxUnavailable: &none},
	}
	if change != nil {
		change(&pdb.Spec)
	}
	client := c.Kube.PolicyV1().PodDisruptionBudgets(namespace)
	made, err := client.Create(t.Context(), pdb, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "the budget "+name+" counts", func() bool {
		now, err := client.Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && now.Status.ObservedGeneration > 0
	})
	return made
}
