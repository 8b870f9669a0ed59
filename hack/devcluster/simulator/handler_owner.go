package simulator

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
)

const (
	defaultShutdown = 500 * time.Millisecond
	// DefaultGrace is what virt-launcher writes into a domain whose VMI does
	// not say anything.
	defaultGrace = 30 * time.Second
)

// asOwner is the host on which the VMI is: it starts and stops the guest and
// reports what it sees.
func (p *pass) asOwner() {
	name := p.vmi.Labels[virtv1.NodeNameLabel]
	if name == "" {
		name = p.vmi.Status.NodeName
	}
	if _, on := p.registry.powered(name); !on {
		return
	}
	// While a migration runs, its two controllers own the VMI, unless it is
	// being deleted.
	if p.vmi.DeletionTimestamp == nil && migrationRuns(p.vmi) {
		return
	}
	pod := p.launcherOn(name)
	if pod == nil {
		return // virt-controller's to notice
	}
	switch p.vmi.Status.Phase {
	case virtv1.Scheduled:
		p.start(pod)
	case virtv1.Running:
		p.watch(pod)
	}
}

func migrationRuns(vmi *virtv1.VirtualMachineInstance) bool {
	migration := vmi.Status.MigrationState
	return migration != nil && migration.StartTimestamp != nil && migration.EndTimestamp == nil
}

// start boots a guest in a launcher that is up.
func (p *pass) start(pod *corev1.Pod) {
	if p.dead(pod) {
		// The launcher went away and the VMI never ran.
		p.become(virtv1.Failed)
		return
	}
	if p.vmi.DeletionTimestamp != nil || pod.DeletionTimestamp != nil {
		// A guest that has not booted has nothing to lose: the launcher need not
		// wait for it.
		if p.guests.inPod(pod.UID) {
			p.guests.off(p.vmi.UID)
			p.kubelet.queue.Add(pod.Namespace + "/" + pod.Name)
		}
		return
	}
	if !p.alive(pod) {
		return
	}
	domain := p.guests.get(p.vmi.UID)
	if domain == nil || domain.pod != pod.UID {
		domain = &guest{vmi: p.vmi.UID, host: pod.Spec.NodeName, pod: pod.UID, since: p.now}
		p.guests.put(*domain)
	}
	if left := domain.since.Add(p.behaviour.seconds(annotationBoot, 0, true)).Sub(p.now); left > 0 {
		p.lookAgain(left)
		return
	}
	p.report(pod)
	p.become(virtv1.Running)
	p.event(corev1.EventTypeNormal, virtv1.Created, "VirtualMachineInstance defined.")
}

// watch looks after a guest that runs.
func (p *pass) watch(pod *corev1.Pod) {
	domain := p.guests.get(p.vmi.UID)
	switch {
	case p.dead(pod):
		// The domain vanished under a running VMI.
		p.become(virtv1.Failed)
		return
	case !p.alive(pod):
		return
	case domain == nil || domain.pod != pod.UID:
		domain = &guest{vmi: p.vmi.UID, host: pod.Spec.NodeName, pod: pod.UID, since: p.now}
		p.guests.put(*domain)
	}
	switch p.behaviour.oneOf(annotationGuest, guestPowerOff, guestCrash) {
	case guestCrash:
		p.become(virtv1.Failed)
		return
	case guestPowerOff:
		// A guest that decides by itself is not deaf.
		takes := p.behaviour.seconds(annotationShutdown, defaultShutdown, true)
		if takes >= never {
			takes = defaultShutdown
		}
		p.stop(domain, takes, never)
		return
	}
	if p.vmi.DeletionTimestamp != nil || pod.DeletionTimestamp != nil {
		p.pressPowerButton(domain)
		return
	}
	if !domain.stopSince.IsZero() {
		// The guest was told to go by an annotation that was taken back.
		domain.stopSince = time.Time{}
		p.guests.put(*domain)
	}
	p.report(pod)
}

// pressPowerButton asks the guest to shut down, and destroys it when the VMI's
// grace period is over.
func (p *pass) pressPowerButton(domain *guest) {
	grace := defaultGrace
	if seconds := p.vmi.Spec.TerminationGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	takes := p.behaviour.seconds(annotationShutdown, defaultShutdown, true)
	if p.paused() {
		// A stopped CPU does not answer the button.
		takes = never
	}
	if domain.stopSince.IsZero() && grace > 0 {
		p.events.Event(p.before, corev1.EventTypeNormal, virtv1.ShuttingDown.String(), "Signaled Graceful Shutdown")
	}
	p.stop(domain, takes, grace)
}

// stop lets the guest go down after takes, or kills it after grace.
func (p *pass) stop(domain *guest, takes, grace time.Duration) {
	if domain.stopSince.IsZero() {
		domain.stopSince = p.now
		p.guests.put(*domain)
	}
	since := p.now.Sub(domain.stopSince)
	switch {
	case takes <= grace && grace > 0:
		if left := takes - since; left > 0 {
			p.lookAgain(left)
			return
		}
		p.become(virtv1.Succeeded)
	case since < grace:
		p.lookAgain(grace - since)
	default:
		p.event(corev1.EventTypeNormal, virtv1.Deleted, "VirtualMachineInstance stopping")
		if grace > 0 {
			// Destroyed although it could have shut down: KubeVirt calls that a failure.
			p.become(virtv1.Failed)
			return
		}
		p.become(virtv1.Succeeded)
	}
}

// become changes the phase, with what belongs to that.
func (p *pass) become(phase virtv1.VirtualMachineInstancePhase) {
	p.vmi.Status.Phase = phase
	reached := func(t virtv1.VirtualMachineInstancePhaseTransitionTimestamp) bool { return t.Phase == phase }
	if !slices.ContainsFunc(p.vmi.Status.PhaseTransitionTimestamps, reached) {
		p.vmi.Status.PhaseTransitionTimestamps = append(p.vmi.Status.PhaseTransitionTimestamps, virtv1.VirtualMachineInstancePhaseTransitionTimestamp{
			Phase: phase, PhaseTransitionTimestamp: metav1.NewTime(p.now),
		})
	}
	switch phase {
	case virtv1.Running:
		p.event(corev1.EventTypeNormal, virtv1.Started, "VirtualMachineInstance started.")
	case virtv1.Succeeded:
		p.event(corev1.EventTypeNormal, virtv1.Stopped, "The VirtualMachineInstance was shut down.")
	case virtv1.Failed:
		p.event(corev1.EventTypeWarning, virtv1.Stopped, "The VirtualMachineInstance crashed.")
	}
	if phase != virtv1.Running {
		p.then(func() { p.guests.off(p.vmi.UID) })
	}
}
