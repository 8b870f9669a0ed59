package execute

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// abreast is how many requests of one pass are under way at once.
const abreast = 10

// nextBatch returns the actions that are carried out next, and those after them: one
// about the node, which the rest relies on, or all up to the next such.
func nextBatch(actions []plan.Action) (batch, rest []plan.Action) {
	end := slices.IndexFunc(actions, essential)
	switch end {
	case -1:
		return actions, nil
	case 0:
		end = 1
	}
	return actions[:end], actions[end:]
}

// sideBySide carries out a batch. Those about one VM or pod are done in their order,
// and none of them after one that failed; the others do not wait for each other: a slot
// that is free stays unused while an eviction waits for the one before. The errors are
// in the order of the actions.
func (e *Executor) sideBySide(ctx context.Context, node *corev1.Node, batch []plan.Action) (updated *corev1.Node, errs []error) {
	errs = make([]error, len(batch))
	if essential(batch[0]) {
		updated, errs[0] = e.act(ctx, node, batch[0])
		return updated, errs
	}
	bySubject := map[types.NamespacedName][]int{}
	var subjects []types.NamespacedName
	for n, action := range batch {
		subject := subjectOf(action)
		if bySubject[subject] == nil {
			subjects = append(subjects, subject)
		}
		bySubject[subject] = append(bySubject[subject], n)
	}
	workqueue.ParallelizeUntil(ctx, abreast, len(subjects), func(i int) {
		for _, n := range bySubject[subjects[i]] {
			if _, errs[n] = e.act(ctx, node, batch[n]); errs[n] != nil {
				return
			}
		}
	})
	return nil, errs
}

// subjectOf is the VM, or the pod that is none's, that an action is about.
func subjectOf(action plan.Action) types.NamespacedName {
	of := func(object metav1.Object) types.NamespacedName {
		return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	}
	switch a := action.(type) {
	case plan.Evict:
		if a.VMI == nil {
			// A VM may have the pod's name; one that waits for the other does no harm.
			return of(a.Pod)
		}
		return of(a.VMI)
	case plan.Migrate:
		return of(a.VMI)
	case plan.Withdraw:
		return of(a.VMI)
	case plan.DeleteMigration:
		return of(a.VMI)
	case plan.DeleteVMI:
		return of(a.VMI)
	case plan.Halt:
		return of(a.VM)
	case plan.Start:
		return of(a.VM)
	case plan.CallStart:
		return of(a.VM)
	case plan.Forget:
		return of(a.VM)
	case plan.Cordon, plan.Uncordon, plan.RemoveTaint:
	}
	return types.NamespacedName{}
}

// essential reports an action without which the following would be wrong.
func essential(action plan.Action) bool {
	switch action.(type) {
	case plan.Cordon, plan.Uncordon, plan.RemoveTaint:
		return true
	default:
		return false
	}
}
