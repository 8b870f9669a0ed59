package plan

import (
	"fmt"
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Progress is where a VMI stands on its way off the node.
type Progress string

const (
	// Waiting: nothing has been done yet.
	Waiting Progress = "Waiting"
	// Marked: KubeVirt has marked it for evacuation and will create a migration.
	Marked Progress = "Marked"
	// Migrating: a migration is unfinished.
	Migrating Progress = "Migrating"
	// ShuttingDown: the VM is halted, its guest is not off yet.
	ShuttingDown Progress = "ShuttingDown"
	// Held: something that is not Drydock's must end first; Detail names it.
	Held Progress = "Held"
	// Ended: it no longer counts.
	Ended Progress = "Ended"
)

const (
	// retryFirst and retryMost bound the back-off after a failed migration; KubeVirt's
	// own begins at the same 20 s.
	retryFirst = 20 * time.Second
	retryMost  = 5 * time.Minute
	// unmarked is how long an eviction may take to show in the VMI before it counts
	// as refused. The mark is written before KubeVirt answers, so this only covers
	// the watch.
	unmarked = 10 * time.Second
)

// backoff is how long to wait after the n-th failure.
func backoff(n int) time.Duration {
	wait := retryFirst
	for ; n > 1 && wait < retryMost; n-- {
		wait *= 2
	}
	return min(wait, retryMost)
}

// locate fills in where the instance stands.
func (s *situation) locate(f *Fate) {
	i := f.instance
	migration := i.migration()
	switch {
	case f.Reason == ReasonFinal:
		f.Progress = Ended
	case f.Reason == ReasonEnding:
		f.Progress, f.Detail = ShuttingDown, fmt.Sprintf("is shutting down, up to %d s", i.grace())
	case f.Reason == ReasonDeparted:
		f.Progress = Migrating
	case migration != nil:
		f.Progress = Migrating
		if message, stuck := i.unschedulable(); stuck {
			f.Detail = "has no target: " + message
		}
	case i.VMI.Status.EvacuationNodeName == s.Name:
		f.Progress, f.Detail = Marked, i.outlived()
		if f.Means == ByExternal {
			f.Detail = "is waiting for the external controller"
		}
	default:
		f.Progress = Waiting
	}
	s.explainFailures(f)
}

// explainFailures adds KubeVirt's reason of the last failed migration.
func (s *situation) explainFailures(f *Fate) {
	if f.Detail != "" || f.Verdict != Move || s.record == nil {
		return
	}
	count, last := s.failures(f.instance)
	if count == 0 {
		return
	}
	reason := "no reason given"
	if state := last.Status.MigrationState; state != nil && state.FailureReason != "" {
		reason = state.FailureReason
	}
	f.Detail = fmt.Sprintf("migration failed %s: %s", counted(count, "time"), reason)
}

// obstruction names what must end before a VM may be stopped, "" when nothing. To
// stop a VM during a migration is a trap: KubeVirt then neither finishes nor aborts
// the migration.
func (s *situation) obstruction(i *Instance) string {
	vm := i.VM
	switch {
	case i.migration() != nil:
		return fmt.Sprintf("is waiting for migration %s to end", i.migration().Name)
	case Migrates(i.VMI) && !i.hasEnded(i.VMI.Status.MigrationState.MigrationUID):
		// The VMI comes by another watch than its migrations, which may be behind.
		return "is waiting for a migration to end"
	case i.conditionTrue(kubevirtv1.VirtualMachineInstanceVolumesChange):
		return "is waiting for a volume migration to end"
	case vm == nil:
		return ""
	case len(vm.Status.StateChangeRequests) > 0:
		return "is waiting for KubeVirt to serve a start or stop request"
	case vm.Status.SnapshotInProgress != nil:
		return fmt.Sprintf("is waiting for snapshot %s to end", *vm.Status.SnapshotInProgress)
	case vm.Status.RestoreInProgress != nil:
		return fmt.Sprintf("is waiting for restore %s to end", *vm.Status.RestoreInProgress)
	}
	return ""
}

// retryAt is when an instance whose migrations failed may be tried again.
func (s *situation) retryAt(i *Instance) time.Time {
	count, last := s.failures(i)
	if count == 0 {
		return time.Time{}
	}
	ended := last.CreationTimestamp.Time
	if state := last.Status.MigrationState; state != nil && state.EndTimestamp != nil {
		ended = state.EndTimestamp.Time
	}
	return ended.Add(backoff(count))
}

// attempt returns the latest try to move an instance, and how often it was tried: by the
// eviction of one of its launchers, or by a migration of Drydock's own, kept under the
// VMI's UID together with when a move was taken back.
func (s *situation) attempt(i *Instance) Attempt {
	latest := s.Attempts[i.VMI.UID]
	for _, pod := range i.Launchers {
		a, count := s.Attempts[pod.UID], max(latest.Count, s.Attempts[pod.UID].Count)
		if a.Last.After(latest.Last) {
			latest = a
		}
		latest.Count = count
	}
	return latest
}
