package plan

import (
	"fmt"
	"slices"
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Verdict is what a maintenance does to a VMI.
type Verdict string

const (
	// Move: live migration.
	Move Verdict = "Move"
	// StopRestartAfterEnable: stopped, started elsewhere once the node is empty.
	StopRestartAfterEnable Verdict = "StopRestartAfterEnable"
	// StopRestartAfterDisable: stopped, started on leaving.
	StopRestartAfterDisable Verdict = "StopRestartAfterDisable"
	// StopStayOff: stopped; its owner starts it.
	StopStayOff Verdict = "StopStayOff"
	// Delete: a VMI without a VM that cannot move, under force.
	Delete Verdict = "Delete"
	// Block: refuses the request; once draining, it is named and waited for.
	Block Verdict = "Block"
	// Await: nothing is done to it, it leaves or ends by itself.
	Await Verdict = "Await"
)

// stopVerdicts are those that power a VM off, by when it is started again.
var stopVerdicts = map[maintenance.RestartPoint]Verdict{
	maintenance.RestartAfterEnable:  StopRestartAfterEnable,
	maintenance.RestartAfterDisable: StopRestartAfterDisable,
	maintenance.RestartNever:        StopStayOff,
}

// VerdictOf returns the verdict on a VM that was stopped and is started again at that
// point.
func VerdictOf(restart maintenance.RestartPoint) Verdict { return stopVerdicts[restart] }

// restart is when a VM is started again that the verdict powers off; ok is false for the
// other verdicts.
func (v Verdict) restart() (restart maintenance.RestartPoint, ok bool) {
	for restart, verdict := range stopVerdicts {
		if verdict == v {
			return restart, true
		}
	}
	return "", false
}

func (v Verdict) stops() bool {
	_, ok := v.restart()
	return ok
}

// Means is how a VMI is moved.
type Means string

const (
	// ByEviction: the eviction API, which KubeVirt turns into a migration.
	ByEviction Means = "Eviction"
	// ByMigration: a migration that Drydock creates, because KubeVirt would shut the
	// VM down on an eviction.
	ByMigration Means = "Migration"
	// ByExternal: marked through eviction, moved by an external controller.
	ByExternal Means = "External"
)

// Fate is the verdict on one VMI, and why.
type Fate struct {
	instance *Instance

	Namespace string                 `json:"namespace"`
	Name      string                 `json:"name"`
	Verdict   Verdict                `json:"verdict"`
	Means     Means                  `json:"means,omitempty"`
	Source    maintenance.StopSource `json:"source,omitempty"`
	Reason    Reason                 `json:"reason,omitempty"`
	// Message is one clause that says why, after the VM's name.
	Message string `json:"message,omitempty"`
	// Unknown is a value of the strategy label that means nothing and is taken for
	// Migrate.
	Unknown string `json:"unknownStrategy,omitempty"`
	// invalid is true for such a value: an empty one is unknown too.
	invalid bool
	// Paused is true for a paused guest.
	Paused bool `json:"paused,omitempty"`
	// blocked is why it cannot move, nil when it can, or need not.
	blocked *obstacle
	// Progress and Detail say where it stands now.
	Progress Progress `json:"progress,omitempty"`
	Detail   string   `json:"detail,omitempty"`
}

const (
	// ReasonStrategy: the owner's label says so.
	ReasonStrategy Reason = "Strategy"
	// ReasonForced: force overrides the owner's choice.
	ReasonForced Reason = "Forced"
	// ReasonConsent: the eviction strategy in the owner's template allows an
	// interruption.
	ReasonConsent Reason = "EvictionStrategy"
	// ReasonFinal: the guest has ended by itself.
	ReasonFinal Reason = "Finished"
	// ReasonEnding: it is being shut down already, by whoever's hand.
	ReasonEnding Reason = "ShuttingDown"
	// ReasonArriving: a migration brings it here.
	ReasonArriving Reason = "MigratingIn"
	// ReasonDeparted: it lives elsewhere by now, what it left behind is ending.
	ReasonDeparted Reason = "MovedAway"
)

func (s *situation) fates() []Fate {
	fates := make([]Fate, 0, len(s.Instances))
	for n := range s.Instances {
		fates = append(fates, s.fate(&s.Instances[n]))
	}
	return fates
}

// fate decides what happens to one VMI of the node: the table in the package's
// documentation.
func (s *situation) fate(i *Instance) Fate {
	key := i.Key()
	f := Fate{instance: i, Namespace: key.Namespace, Name: key.Name, Paused: i.paused()}
	switch {
	case i.VMI.IsFinal():
		f.Verdict, f.Reason = Await, ReasonFinal
		return f
	case i.departed(s.Name) || i.movedUnseen(s.Name):
		f.Verdict, f.Reason, f.Message = Await, ReasonDeparted, "has moved, its old launcher is ending"
		return f
	case !i.on(s.Name):
		f.Verdict, f.Reason, f.Message = Await, ReasonArriving, "is migrating to this node"
		return f
	case i.VMI.DeletionTimestamp != nil || (i.VM != nil && halted(i.VM)):
		f.Verdict, f.Reason = Await, ReasonEnding
		return f
	}
	strategy := maintenance.StrategyMigrate
	if i.VM != nil {
		var valid bool
		strategy, f.Unknown, valid = maintenance.StrategyOf(i.VM.Labels)
		f.invalid = !valid
	}
	if strategy.Stops() {
		s.stopFate(&f, strategy)
		return f
	}
	s.migrateFate(&f)
	return f
}

func (s *situation) stopFate(f *Fate, strategy maintenance.Strategy) {
	f.Source, f.Reason = maintenance.SourceLabel, ReasonStrategy
	f.Verdict = VerdictOf(strategy.Restart())
	if s.forced && !s.Config.HonorStrategy {
		f.Verdict = StopStayOff
		if strategy.Restarts() {
			f.Source, f.Reason, f.Message = maintenance.SourceForce, ReasonForced, "is stopped by force"
		}
	}
}

func (s *situation) migrateFate(f *Fate) {
	i := f.instance
	blocked := s.movable(i)
	if m := i.migration(); m != nil && migrationUnderWay(m) {
		// It has a target, whatever has become of the others meanwhile.
		blocked = nil
	}
	if blocked != nil {
		f.blocked, f.Reason, f.Message = blocked, blocked.reason, blocked.message
	}
	switch {
	case s.consents(i, blocked != nil && !s.arisen(i)) && !s.forced:
		f.Verdict, f.Source, f.Reason = StopRestartAfterEnable, maintenance.SourceEvictionStrategy, ReasonConsent
		f.Message = fmt.Sprintf("allows an interruption by evictionStrategy %s", i.consent())
	case blocked == nil:
		f.Verdict, f.Means = Move, s.means(i)
	case !s.forced:
		f.Verdict = Block
	case i.OwnerUnknown, s.mayPass(i, blocked):
		f.Verdict = Block
	case i.VM == nil:
		f.Verdict, f.Source = Delete, maintenance.SourceForce
	default:
		f.Verdict, f.Source = StopStayOff, maintenance.SourceForce
	}
}

// arisen reports that whatever keeps an instance from moving has come since the admission,
// when it could move, or was not there yet.
func (s *situation) arisen(i *Instance) bool {
	return s.record != nil && !slices.Contains(s.record.Unmovable, i.VMI.UID)
}

// targetPatience is how long a VM whose possible targets have gone since the admission is
// waited for under force. A host that restarts its virt-handler takes no VMs for half
// a minute.
const targetPatience = time.Minute

// mayPass reports that force waits: the obstacle has come since the admission, and such
// obstacles come and go.
func (s *situation) mayPass(i *Instance, blocked *obstacle) bool {
	if blocked.reason != ReasonNoTarget || !s.arisen(i) {
		return false
	}
	return s.Now.Sub(s.withoutTarget(i)) < targetPatience
}

// withoutTarget is since when no other node takes the instance.
func (s *situation) withoutTarget(i *Instance) time.Time {
	if first, noted := s.NoTarget[i.VMI.UID]; noted {
		return first
	}
	return s.Now
}

// consents reports that the owner's template allows an interruption. Bare VMIs
// never do.
func (s *situation) consents(i *Instance, blocked bool) bool {
	switch i.consent() {
	case kubevirtv1.EvictionStrategyNone:
		return true
	case kubevirtv1.EvictionStrategyLiveMigrateIfPossible:
		return blocked && s.Config.PossibleIsConsent
	}
	return false
}

func (s *situation) means(i *Instance) Means {
	switch EvictionStrategyOf(i.VMI, s.KubeVirt.EvictionStrategy) {
	case kubevirtv1.EvictionStrategyExternal:
		return ByExternal
	case kubevirtv1.EvictionStrategyLiveMigrate, kubevirtv1.EvictionStrategyLiveMigrateIfPossible:
		return ByEviction
	}
	return ByMigration
}

// remedy is the command that keeps the VM from blocking, "" where there is none.
func (f *Fate) remedy() string {
	if f.instance.VM == nil {
		return ""
	}
	return fmt.Sprintf("kubectl label vm -n %s %s %s=%s --overwrite", f.Namespace, f.Name, maintenance.LabelStrategy, maintenance.StrategyRestartAfterEnable)
}

// label names the VM for a sentence.
func (f *Fate) label() string { return f.Namespace + "/" + f.Name }

// blockMessage says why a VM refuses the request.
func (f *Fate) blockMessage() string {
	if f.instance.VM != nil {
		return "VM " + f.label() + " " + f.Message
	}
	if f.instance.OwnerUnknown {
		return fmt.Sprintf("VMI %s %s, and the VM that owns it cannot be found", f.label(), f.Message)
	}
	lost := "it would be lost"
	for _, owner := range f.instance.VMI.OwnerReferences {
		if owner.Controller != nil && *owner.Controller {
			lost = "it will be re-created elsewhere by " + owner.Kind + " " + owner.Name
		}
	}
	return fmt.Sprintf("VMI %s %s and belongs to no VM: %s; force deletes it", f.label(), f.Message, lost)
}
