package webhook

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// nodeMutator completes a request for maintenance.
type nodeMutator struct {
	words   maintenance.Vocabulary
	account string
}

func (n nodeMutator) review(request *admissionv1.AdmissionRequest) (verdict, error) {
	old, now, err := objects[corev1.Node](request)
	if err != nil || old == nil {
		return verdict{}, err
	}
	operations := n.rename(old, now)
	if n.asks(old, now) && request.UserInfo.Username != n.account {
		// Whatever the request says about who asks: this is who does.
		operations = append(operations, annotate(maintenance.AnnotationRequestedBy, request.UserInfo.Username))
	}
	return verdict{patch: operations}, nil
}

// rename moves newly added requests from Harvester's words to Drydock's own, whatever
// their value: Harvester's controller looks at the key alone. One that was there before
// is being served by Harvester, because this webhook was not there: it is left to it.
func (n nodeMutator) rename(old, now *corev1.Node) []operation {
	var operations []operation
	for from, to := range map[string]string{
		maintenance.AnnotationRequested: n.words.Requested,
		maintenance.AnnotationForced:    n.words.Forced,
	} {
		value, has := now.Annotations[from]
		if _, had := old.Annotations[from]; from == to || had || !has {
			continue
		}
		operations = append(operations, annotate(to, value))
		operations = append(operations, removeKeys(now.Annotations, []string{"metadata", "annotations"}, from)...)
	}
	return operations
}

// asks reports that the write brings a request, in either words.
func (n nodeMutator) asks(old, now *corev1.Node) bool {
	for _, words := range []maintenance.Vocabulary{maintenance.Plain, n.words} {
		if !words.Request(old).Wanted && words.Request(now).Wanted {
			return true
		}
	}
	return false
}

// annotate sets an annotation of a node that has some.
func annotate(key, value string) operation {
	return setKey(map[string]string{}, []string{"metadata", "annotations"}, key, value)
}

// nodeValidator refuses what the pre-checks would refuse, at the moment that it is
// asked for, and a plain cordon of the last node. Force makes no difference to either.
type nodeValidator struct {
	words  maintenance.Vocabulary
	roster Roster
}

func (n nodeValidator) review(request *admissionv1.AdmissionRequest) (verdict, error) {
	old, now, err := objects[corev1.Node](request)
	if err != nil || old == nil {
		return verdict{}, err
	}
	check := n.checkOf(old, now)
	if check == nil {
		return verdict{}, nil
	}
	findings, err := n.findings(now, check)
	if err != nil {
		// The controller asks again before it does anything.
		return verdict{warnings: []string{fmt.Sprintf("it was not checked whether node %s can be spared: %v", now.Name, err)}}, nil
	}
	return verdict{refusal: plan.Refusal(findings)}, nil
}

// checkOf returns what an update of a node has to pass, nil for nothing.
func (n nodeValidator) checkOf(old, now *corev1.Node) func(*plan.Snapshot) ([]plan.Finding, error) {
	if now.DeletionTimestamp != nil {
		return nil
	}
	if maintenance.Recorded(now) {
		// It has passed admission. Its cordon is Drydock's own, or a human's who repairs it.
		return nil
	}
	switch {
	case !n.words.Request(old).Wanted && n.words.Request(now).Wanted:
		return plan.CheckMembers
	case !old.Spec.Unschedulable && now.Spec.Unschedulable:
		return plan.CheckCordon
	}
	return nil
}

func (n nodeValidator) findings(node *corev1.Node, check func(*plan.Snapshot) ([]plan.Finding, error)) ([]plan.Finding, error) {
	snapshot, err := n.roster.Roster(node)
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	return check(snapshot)
}
