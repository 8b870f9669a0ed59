package plan

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodFate is where a plain pod stands.
type PodFate struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Leaving is true once the pod is being deleted.
	Leaving bool `json:"leaving,omitempty"`
	// Returned is true when it came back after an eviction: it is left alone and does
	// not keep the node from being empty.
	Returned bool `json:"returned,omitempty"`
	// Detail says what holds it.
	Detail string `json:"detail,omitempty"`
}

const (
	// evictAgain is the first wait after an eviction that was refused although no
	// budget explains it; it doubles up to evictMost.
	evictAgain = 5 * time.Second
	evictMost  = 5 * time.Minute
	// evictBatch bounds the evictions of one pass, so that no worker is busy for long.
	evictBatch = 25
)

// evictPods decides which plain pods are evicted now, and names what holds the
// others. On a node that does not answer, pods past their deletion are not counted:
// nobody is left there to finish them.
func (s *situation) evictPods(p *Plan) {
	sent := 0
	for n := range s.Pods {
		pod := &s.Pods[n]
		if pod.DeletionTimestamp != nil {
			if !nodeUnreachable(s.Node) {
				p.Pods = append(p.Pods, PodFate{Namespace: pod.Namespace, Name: pod.Name, Leaving: true, Detail: "is terminating"})
			}
			continue
		}
		fate := PodFate{Namespace: pod.Namespace, Name: pod.Name}
		if s.cameBack(pod) {
			fate.Returned, fate.Detail = true, "came back after its eviction"
			p.Pods = append(p.Pods, fate)
			continue
		}
		held, again := s.podHeld(pod)
		fate.Detail = held
		switch {
		case s.record.Halted != "":
		case held != "":
			p.wake(again)
		case sent < evictBatch:
			p.do(Evict{Pod: pod.Pod})
			sent++
		default:
			p.wake(time.Millisecond)
		}
		p.Pods = append(p.Pods, fate)
	}
}

// cameBack reports a pod that its controller put here after another of its pods was
// evicted from here: it tolerates the cordon, or was never shown to the scheduler. To
// evict it again would only bring the next one.
func (s *situation) cameBack(pod *Pod) bool {
	owner := metav1.GetControllerOf(pod.Pod)
	if owner == nil || s.record == nil {
		return false
	}
	for uid, attempt := range s.Attempts {
		// Objects know their age in seconds, and by another clock.
		after := !pod.CreationTimestamp.Time.Before(attempt.Sent.Truncate(time.Second).Add(-time.Second))
		if uid != pod.UID && attempt.Owner == owner.UID && attempt.Node == s.Name && attempt.Code/100 == 2 && after && !attempt.Last.Before(s.record.Started.Time) {
			return true
		}
	}
	return false
}

// podHeld tells why evicting a pod now would be refused or is under way already, ""
// if it is to be tried. Where a budget holds the pod the answer is known without
// asking, since the API server decides by the same status; a change of the budget or
// of the pod brings the plan back here.
func (s *situation) podHeld(pod *Pod) (why string, again time.Duration) {
	if budget := budgetHolds(pod); budget != "" {
		return budget, evictMost
	}
	attempt := s.Attempts[pod.UID]
	if attempt.Count == 0 {
		return "", 0
	}
	wait := evictAgain
	for n := 1; n < attempt.Count && wait < evictMost; n++ {
		wait *= 2
	}
	remaining := min(wait, evictMost) - s.Now.Sub(attempt.Last)
	switch {
	case remaining <= 0:
		return "", 0
	case attempt.Code < 300:
		return "is being evicted", remaining
	}
	return fmt.Sprintf("cannot be evicted (%d: %s)", attempt.Code, attempt.Message), remaining
}

// budgetHolds names the disruption budgets that keep a pod from being evicted, as
// the API server decides it; "" when none does.
func budgetHolds(pod *Pod) string {
	if pod.Status.Phase != corev1.PodRunning {
		return ""
	}
	if len(pod.Budgets) > 1 {
		return fmt.Sprintf("is selected by %d PDBs (%s), which the eviction API refuses", len(pod.Budgets), names(budgetNames(pod.Budgets)))
	}
	for _, budget := range pod.Budgets {
		if podReady(pod.Pod) || !unhealthyMayGo(budget) {
			if budget.Status.DisruptionsAllowed <= 0 {
				held := "held by PDB " + budget.Namespace + "/" + budget.Name
				if why := cmp.Or(pod.Policy, whyHeld(pod.Pod, budget)); why != "" {
					held += ": " + why
				}
				return held
			}
		}
	}
	return ""
}

// whyHeld says what has to change before a budget lets a pod go, "" where others that
// become healthy are enough. It has no numbers, which would change all the time.
func whyHeld(pod *corev1.Pod, budget *policyv1.PodDisruptionBudget) string {
	status := &budget.Status
	allowed := apimeta.FindStatusCondition(status.Conditions, policyv1.DisruptionAllowedCondition)
	switch {
	case status.ObservedGeneration < budget.Generation:
		return ""
	case status.ExpectedPods == 0, allowed != nil && allowed.Reason == policyv1.SyncFailedReason:
		// With maxUnavailable or a percentage, pods without a controller do not count.
		return "it cannot count its pods"
	case !podReady(pod):
		return "the pod is not Ready and counts against it"
	case status.DesiredHealthy >= status.ExpectedPods:
		return "it never allows an eviction"
	}
	return ""
}

// unhealthyMayGo reports whether a budget lets a pod go that is not Ready.
func unhealthyMayGo(budget *policyv1.PodDisruptionBudget) bool {
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy && budget.Status.DesiredHealthy > 0
}

func budgetNames(budgets []*policyv1.PodDisruptionBudget) []string {
	list := make([]string, 0, len(budgets))
	for _, b := range budgets {
		list = append(list, b.Namespace+"/"+b.Name)
	}
	return list
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
