package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// drain decides what is done for the VMs of an engaged node. It returns their fates
// with progress, and appends actions.
func (s *situation) drain(p *Plan) {
	p.VMs = s.fates()
	p.warnUnknown(p.VMs)
	slices.SortStableFunc(p.VMs, func(a, b Fate) int { return strings.Compare(a.label(), b.label()) })
	var queue []*Fate
	for n := range p.VMs {
		f := &p.VMs[n]
		s.locate(f)
		if f.blocked != nil && f.blocked.reason == ReasonNoTarget {
			p.NoTarget = append(p.NoTarget, f.instance.VMI.UID)
			if s.forced && f.Verdict == Block {
				p.wake(targetPatience - s.Now.Sub(s.withoutTarget(f.instance)))
			}
		}
		if s.record.Halted != "" {
			continue
		}
		switch {
		case f.Verdict.stops() || f.Verdict == Delete:
			s.stop(p, f)
		case f.Verdict == Move && f.Progress == Waiting:
			queue = append(queue, f)
		}
	}
	if s.record.Halted == "" {
		s.dispatch(p, queue)
	}
}

// stop halts a VM, or deletes a VMI without one, once nothing is in the way. Drydock's
// own evacuation and migration are withdrawn first; a user's migration is awaited.
func (s *situation) stop(p *Plan, f *Fate) {
	i := f.instance
	// Whoever marked it: KubeVirt would go on making migrations of a VM that is to stop.
	if i.VMI.Status.EvacuationNodeName == s.Name {
		p.do(Withdraw{VMI: i.VMI, Node: s.Name})
	}
	if m := i.migration(); m != nil && s.ours(m) && m.DeletionTimestamp == nil {
		p.do(DeleteMigration{Migration: m, VMI: i.VMI})
	}
	if why := s.obstruction(i); why != "" {
		f.Progress, f.Detail = Held, why
		return
	}
	if i.VMI.Status.EvacuationNodeName == s.Name {
		// KubeVirt may create a migration until the mark is gone.
		f.Progress, f.Detail = Held, "is waiting for its evacuation to be withdrawn"
		return
	}
	if f.Verdict == Delete {
		p.do(DeleteVMI{VMI: i.VMI})
		return
	}
	p.do(Halt{VM: i.VM, VMI: i.VMI, Record: s.stopRecord(f)})
	f.Progress, f.Detail = ShuttingDown, fmt.Sprintf("is shutting down, up to %d s", i.grace())
}

func (s *situation) stopRecord(f *Fate) *maintenance.VMRecord {
	strategy := RunStrategyOf(f.instance.VM)
	restart, _ := f.Verdict.restart()
	return &maintenance.VMRecord{
		ID: s.record.ID, VM: f.instance.VM.UID, Node: s.Node.Name, NodeUID: s.Node.UID,
		Restart: restart, Source: f.Source,
		RunStrategy: string(strategy), Stopped: f.instance.VMI.UID, Paused: f.Paused, NodeSelector: f.instance.instancetypeSelector(),
	}
}

func (s *situation) markedBefore(i *Instance) bool {
	return s.record != nil && slices.Contains(s.record.MarkedBefore, i.VMI.UID)
}

// stillMarked are those of the marks from before the drain that stand. A mark that comes
// after one was seen to go is this drain's.
func (s *situation) stillMarked() []types.UID {
	var marked []types.UID
	for n := range s.Instances {
		if i := &s.Instances[n]; i.VMI.Status.EvacuationNodeName == s.Name && s.markedBefore(i) {
			marked = append(marked, i.VMI.UID)
		}
	}
	return marked
}

const waitingForSlot = "is waiting for a migration slot"

// yieldAgain is when a node looks again that left a slot to another one.
const yieldAgain = time.Second

// slotAgain is when a node with VMs that wait for a slot looks again at the latest.
const slotAgain = 5 * time.Second

// dispatch hands out evictions and own migrations as KubeVirt's slots become free,
// rather than all at once: KubeVirt looks at a migration that found no slot only
// every five seconds, and a VM without a target would hold one for minutes. VMs
// whose migrations failed come last, and step back while others wait.
//
// When the cluster's slots are what is short, each node with more VMs that wait may
// take one first. A node has only a few slots of its own: one that comes last and still
// has all of its VMs would keep the others waiting at the end, with slots idle.
func (s *situation) dispatch(p *Plan, queue []*Fate) {
	own, cluster, ahead := s.KubeVirt.MigrationsPerNode-s.Migrations.Node, s.KubeVirt.MigrationsPerCluster-s.Migrations.Cluster, 0
	for _, waiting := range s.Migrations.Waiting {
		if waiting > len(queue) {
			ahead++
		}
	}
	free := min(own, cluster-ahead)
	slices.SortStableFunc(queue, func(a, b *Fate) int { return s.tries(a.instance) - s.tries(b.instance) })
	waiting := 0
	for _, f := range queue {
		i := f.instance
		if !i.VMI.IsRunning() {
			f.Detail = "is not running yet"
			continue
		}
		if !i.VMI.IsMigratable() {
			// An eviction under LiveMigrateIfPossible would shut it down.
			f.Detail = "is not known to KubeVirt as live-migratable yet"
			continue
		}
		if at := s.retryAt(i); s.Now.Before(at) {
			p.wake(at.Sub(s.Now))
			continue
		}
		if s.recentlySent(p, f) {
			continue
		}
		if left := i.outlived(); left != "" && f.Means != ByExternal {
			// Marked, it would hold a slot for nothing.
			f.Detail = left
			continue
		}
		if free <= 0 && f.Means != ByExternal {
			why := cmp.Or(s.attempt(i).Withdrawn, f.Detail)
			f.Detail = waitingForSlot
			if why != "" {
				f.Detail = why + "; it " + waitingForSlot
			}
			waiting++
			continue
		}
		s.send(p, f)
		if f.Means != ByExternal {
			free--
			own--
		}
	}
	if own > 0 {
		p.Waiting = waiting
	}
	switch {
	case ahead > 0 && p.Waiting > 0:
		p.wake(yieldAgain)
	case waiting > 0:
		// A slot that was counted for a move that never began is freed by no event.
		p.wake(slotAgain)
	}
	s.stepBack(p, waiting > 0 || len(s.Migrations.Waiting) > 0)
}

// send starts one move.
func (s *situation) send(p *Plan, f *Fate) {
	i := f.instance
	if f.Means == ByMigration {
		p.do(Migrate{VMI: i.VMI, ID: s.record.ID})
	} else {
		for _, launcher := range i.Launchers {
			p.do(Evict{Pod: launcher, VMI: i.VMI})
		}
	}
	f.Progress = Marked
}

// recentlySent reports a move that was asked for and does not show yet, or was
// refused. KubeVirt answers 429 for a mark and for a refusal alike, so only the mark
// tells; the same question is not asked again before the back-off is over.
func (s *situation) recentlySent(p *Plan, f *Fate) bool {
	attempt := s.attempt(f.instance)
	if attempt.Count == 0 {
		return false
	}
	if _, stuck := f.instance.unschedulable(); !stuck && s.Now.Sub(attempt.Last) > unmarked && attempt.Message != "" {
		f.Detail = "did not leave: " + attempt.Message
	}
	if attempt.Withdrawn != "" {
		f.Detail = attempt.Withdrawn + "; it is tried again behind the others"
	}
	until := attempt.Last.Add(max(unmarked, backoff(attempt.Count)))
	if !s.Now.Before(until) {
		return false
	}
	p.wake(until.Sub(s.Now))
	return true
}

// stepBack withdraws moves that hold a slot without getting anywhere, while others
// wait for one: a target pod that no node takes, and an evacuation whose migration
// failed, which KubeVirt would repeat for ever.
func (s *situation) stepBack(p *Plan, othersWait bool) {
	if !othersWait {
		return
	}
	for n := range p.VMs {
		f := &p.VMs[n]
		i := f.instance
		if f.Verdict != Move || f.Means == ByExternal || s.markedBefore(i) {
			continue
		}
		m := i.migration()
		count, _ := s.failures(i)
		reason, stuck := i.unschedulable()
		switch {
		case f.Progress == Migrating && stuck && s.ours(m) && !migrationUnderWay(m):
		case f.Progress == Marked && count > 0 && i.VMI.Status.EvacuationNodeName == s.Name:
		default:
			continue
		}
		if stuck {
			reason = "had no target: " + reason
		}
		if i.VMI.Status.EvacuationNodeName == s.Name {
			p.do(Withdraw{VMI: i.VMI, Node: s.Name, Why: reason})
		}
		if m != nil && m.DeletionTimestamp == nil {
			p.do(DeleteMigration{Migration: m, VMI: i.VMI, Why: reason})
		}
	}
}

// tries is how often a VM was asked to leave in vain.
func (s *situation) tries(i *Instance) int {
	count, _ := s.failures(i)
	return max(count, s.attempt(i).Count)
}

// markShows is how long what KubeVirt has written may take to be seen here, and what is
// written here to be seen by KubeVirt. KubeVirt writes a mark before it answers, so this
// only covers the watches.
const markShows = 2 * time.Second

// withdraw takes back everything that this drain asked of KubeVirt, and nothing that
// others did: marks from before the drain and migrations of users stay. A migration
// that already moves memory is let go on. It names the VMs and reports whether
// anything was left to withdraw, so that leaving goes on only once KubeVirt makes no more.
func (s *situation) withdraw(p *Plan) (vms []string, left bool) {
	before := len(p.Actions)
	for n := range s.Instances {
		i, asked := &s.Instances[n], len(p.Actions)
		waits := false
		if i.VMI.Status.EvacuationNodeName == s.Name && !s.markedBefore(i) && i.VMI.DeletionTimestamp == nil && !i.VMI.IsFinal() {
			p.do(Withdraw{VMI: i.VMI, Node: s.Name})
		}
		m := i.migration()
		if s.Now.Sub(s.attempt(i).Last) < markShows && i.on(s.Name) && i.VMI.DeletionTimestamp == nil {
			// It was asked to leave, or a move of it was withdrawn, a moment ago: what KubeVirt
			// makes of the one, or still makes because it does not know of the other, is yet
			// to show.
			p.pending = true
			p.wake(markShows)
		}
		if m != nil && !s.markedBefore(i) && s.ours(m) && !migrationUnderWay(m) {
			switch {
			case m.DeletionTimestamp == nil:
				p.do(DeleteMigration{Migration: m, VMI: i.VMI})
			case !nodeUnreachable(s.Node):
				// On a node that does not answer nobody is left to abort it.
				p.pending, waits = true, true
			}
		}
		if waits || len(p.Actions) > asked {
			vms = append(vms, i.Key().String())
		}
	}
	slices.Sort(vms)
	return vms, len(p.Actions) > before || p.pending
}
