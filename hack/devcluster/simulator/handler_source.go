package simulator

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	virtv1 "kubevirt.io/api/core/v1"
)

const (
	defaultMigration       = time.Second
	defaultMigrationReason = "Live migration failed: simulated failure"
	// DefaultCompletionPerGiB is KubeVirt's default for completionTimeoutPerGiB.
	defaultCompletionPerGiB = 150
)

// asSource is the host that a migration leaves: it starts the migration, knows
// how long it takes and whether it fails, and aborts it when asked.
func (p *pass) asSource() {
	migration := p.vmi.Status.MigrationState
	if migration == nil || p.vmi.DeletionTimestamp != nil || p.vmi.Status.Phase != virtv1.Running {
		return
	}
	if migration.SourceNode != p.vmi.Status.NodeName || migrationIsOver(migration) || migration.EndTimestamp != nil {
		return
	}
	if _, on := p.registry.powered(migration.SourceNode); !on {
		return
	}
	domain := p.guests.get(p.vmi.UID)
	pod := p.launcherOn(migration.SourceNode)
	if domain == nil || pod == nil || domain.pod != pod.UID || !p.alive(pod) {
		p.sourceWithoutDomain(pod)
		return
	}
	target := p.launcherNamed(migration.TargetPod)
	switch {
	case migration.AbortRequested && migration.AbortStatus != virtv1.MigrationAbortSucceeded:
		p.abortMigration("Live migration aborted ")
	case migration.StartTimestamp == nil:
		if migration.TargetDirectMigrationNodePorts == nil {
			return
		}
		p.startMigration(domain, target)
	default:
		p.continueMigration(domain, target)
	}
}

func migrationIsOver(migration *virtv1.VirtualMachineInstanceMigrationState) bool {
	return migration.EndTimestamp != nil && (migration.Completed || migration.Failed)
}

// sourceWithoutDomain: the launcher died in the middle of a migration, so the
// VMI is no more. The owner's role does not look while a migration runs.
func (p *pass) sourceWithoutDomain(pod *corev1.Pod) {
	if pod == nil || !p.dead(pod) || !migrationRuns(p.vmi) {
		return
	}
	p.failMigration("Live migration failed: the source's launcher is gone")
	p.become(virtv1.Failed)
}

func (p *pass) startMigration(domain *guest, target *corev1.Pod) {
	migration := p.vmi.Status.MigrationState
	migration.StartTimestamp = ptr.To(metav1.NewTime(p.now))
	migration.Mode = virtv1.MigrationPreCopy
	if !p.alive(target) {
		p.failMigration("Live migration failed: cannot connect to the target")
		return
	}
	p.event(corev1.EventTypeNormal, virtv1.Migrating, "VirtualMachineInstance is migrating.")
	p.then(func() {
		domain.move = &move{migration: migration.MigrationUID, since: p.now}
		p.guests.put(*domain)
	})
}

// continueMigration waits for the end of a migration, and decides how it ends
// only then: annotations may be changed while it runs.
func (p *pass) continueMigration(domain *guest, target *corev1.Pod) {
	migration := p.vmi.Status.MigrationState
	if domain.move == nil || domain.move.migration != migration.MigrationUID {
		// After a restart of the simulator the VMI is all that is known.
		domain.move = &move{migration: migration.MigrationUID, since: migration.StartTimestamp.Time}
		p.guests.put(*domain)
	}
	if !p.alive(target) {
		p.failMigration("Live migration failed: lost connection to the target")
		return
	}
	takes := p.behaviour.seconds(annotationMigration, defaultMigration, true)
	limit := completionLimit(p.vmi)
	since := p.now.Sub(domain.move.since)
	switch {
	case takes > limit && since >= limit:
		p.abortMigration(fmt.Sprintf("Live migration is not completed after %d seconds and has been aborted", int(limit.Seconds())))
	case since < min(takes, limit):
		p.lookAgain(min(takes, limit) - since)
	case domain.move.done:
	case p.memory.failures(p.vmi.UID) < p.behaviour.count(annotationMigrationFailures):
		reason := p.vmi.Annotations[annotationMigrationReason]
		if reason == "" {
			reason = defaultMigrationReason
		}
		p.failMigration(reason)
		p.then(p.countFailure)
	default:
		// The domain runs on the target now; that host has the word.
		domain.move.done = true
		p.guests.put(*domain)
		p.lookAgain(time.Millisecond)
	}
}

func (p *pass) countFailure() {
	err := p.memory.change(func(content *memoryContent) { content.Failures[p.vmi.UID]++ })
	if err != nil {
		p.log.Error("a failed migration is not counted", "error", err)
	}
}

func (p *pass) failMigration(reason string) {
	migration := p.vmi.Status.MigrationState
	migration.Failed, migration.FailureReason = true, reason
	migration.EndTimestamp = ptr.To(metav1.NewTime(p.now))
	p.event(corev1.EventTypeWarning, virtv1.Migrated, fmt.Sprintf(
		"VirtualMachineInstance migration uid %s failed. reason:%s", migration.MigrationUID, reason))
	p.then(func() {
		if domain := p.guests.get(p.vmi.UID); domain != nil {
			domain.move = nil
			p.guests.put(*domain)
		}
	})
}

func (p *pass) abortMigration(reason string) {
	migration := p.vmi.Status.MigrationState
	if migration.StartTimestamp == nil {
		migration.StartTimestamp = ptr.To(metav1.NewTime(p.now))
	}
	migration.AbortStatus = virtv1.MigrationAbortSucceeded
	p.event(corev1.EventTypeNormal, virtv1.Migrating, "VirtualMachineInstance is aborting migration.")
	p.failMigration(reason)
}

// completionLimit is KubeVirt's bound on a migration's length: seconds per GiB
// of memory. A guest that "never" gets across runs into it.
func completionLimit(vmi *virtv1.VirtualMachineInstance) time.Duration {
	perGiB := int64(defaultCompletionPerGiB)
	if configuration := vmi.Status.MigrationState.MigrationConfiguration; configuration != nil && configuration.CompletionTimeoutPerGiB != nil {
		perGiB = *configuration.CompletionTimeoutPerGiB
	}
	gib := int64(1)
	if memory := vmi.Spec.Domain.Memory; memory != nil && memory.Guest != nil {
		gib = max(gib, (memory.Guest.Value()+(1<<30)-1)>>30)
	}
	return time.Duration(perGiB*gib) * time.Second
}
