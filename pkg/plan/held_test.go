package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// web is a pod that runs and is Ready, and its budget, which allows no eviction now: one of
// its three pods is not healthy.
func web() (*Pod, *policyv1.PodDisruptionBudget) {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "keep"}}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ExpectedPods: 3, DesiredHealthy: 2, CurrentHealthy: 2}
	pod := &Pod{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}, Budgets: []*policyv1.PodDisruptionBudget{budget}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	return pod, budget
}

// A budget that only waits for other pods is waited for. Of the others somebody has to
// change something, and is told what.
func TestAPodThatABudgetHoldsIsNamedWithWhatHasToChange(t *testing.T) {
	always := policyv1.AlwaysAllow
	unready := func(pod *Pod, _ *policyv1.PodDisruptionBudget) {
		pod.Status.Conditions[0].Status = corev1.ConditionFalse
	}
	short := func(_ *Pod, budget *policyv1.PodDisruptionBudget) { budget.Status.CurrentHealthy = 1 }
	never := func(_ *Pod, budget *policyv1.PodDisruptionBudget) { budget.Status.DesiredHealthy = 3 }
	uncounted := func(_ *Pod, budget *policyv1.PodDisruptionBudget) {
		budget.Status = policyv1.PodDisruptionBudgetStatus{Conditions: []metav1.Condition{{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: "found no controllers for pod web",
		}}}
	}
	type changes = []func(*Pod, *policyv1.PodDisruptionBudget)
	for name, test := range map[string]struct {
		change changes
		want   string // "" where it is evicted
	}{
		"another pod has to become healthy": {want: "held by PDB ns/keep"},
		"nobody has counted its pods yet": {change: changes{func(_ *Pod, budget *policyv1.PodDisruptionBudget) {
			budget.Generation, budget.Status = 1, policyv1.PodDisruptionBudgetStatus{}
		}}, want: "held by PDB ns/keep"},
		"no pod counts for it": {change: changes{func(_ *Pod, budget *policyv1.PodDisruptionBudget) {
			budget.Status = policyv1.PodDisruptionBudgetStatus{}
		}}, want: "held by PDB ns/keep: it cannot count its pods"},
		"all pods are to be healthy":                   {change: changes{never}, want: "held by PDB ns/keep: it never allows an eviction"},
		"its pods belong to nobody":                    {change: changes{uncounted}, want: "held by PDB ns/keep: it cannot count its pods"},
		"its pods belong to nobody, and it is unready": {change: changes{uncounted, unready}, want: "held by PDB ns/keep: it cannot count its pods"},
		"it is unready, and too few are healthy":       {change: changes{unready, short}, want: "held by PDB ns/keep: the pod is not Ready and counts against it"},
		"it is unready, and all are to be healthy":     {change: changes{unready, never}, want: "held by PDB ns/keep: the pod is not Ready and counts against it"},
		"Longhorn's policy is behind it": {change: changes{never, func(pod *Pod, _ *policyv1.PodDisruptionBudget) { pod.Policy = "the last replica of v" }},
			want: "held by PDB ns/keep: the last replica of v"},
		"two budgets select it": {change: changes{func(pod *Pod, budget *policyv1.PodDisruptionBudget) { pod.Budgets = append(pod.Budgets, budget) }},
			want: "is selected by 2 PDBs (ns/keep, ns/keep), which the eviction API refuses"},
		"it is unready, and enough others are healthy": {change: changes{unready}},
		"it is unready, which the budget lets go":      {change: changes{unready, short, func(_ *Pod, budget *policyv1.PodDisruptionBudget) { budget.Spec.UnhealthyPodEvictionPolicy = &always }}},
		"the budget allows an eviction":                {change: changes{func(_ *Pod, budget *policyv1.PodDisruptionBudget) { budget.Status.DisruptionsAllowed = 1 }}},
		"it has not begun to run":                      {change: changes{never, func(pod *Pod, _ *policyv1.PodDisruptionBudget) { pod.Status.Phase = corev1.PodPending }}},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(3, 1, false)
			draining(w)
			pod, budget := web()
			for _, change := range test.change {
				change(pod, budget)
			}
			s := w.snapshot("w1")
			s.Pods = []Pod{*pod}
			p, err := Decide(s)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Pods[0].Detail; got != test.want || (act[Evict](p) == 0) != (test.want != "") {
				t.Errorf("the pod %q, and is evicted %d times; want %q", got, act[Evict](p), test.want)
			}
		})
	}
}
