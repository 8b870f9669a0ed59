package simulator

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	virtv1 "kubevirt.io/api/core/v1"
)

// TargetPorts are what a target advertises: QEMU's direct migration port and
// the one for block migration, each with the port its proxy listens at.
var targetPorts = map[string]int{"0": 49152, "49152": 49153, "49153": 49154}

// asTarget is the host that a migration leads to: it announces where it
// listens, sees the domain arrive, takes the VMI over, and cleans up.
func (p *pass) asTarget() {
	migration := p.vmi.Status.MigrationState
	if migration == nil || p.vmi.DeletionTimestamp != nil {
		return
	}
	self, on := p.registry.powered(p.vmi.Labels[virtv1.MigrationTargetNodeNameLabel])
	if !on {
		return
	}
	switch {
	case migrationIsOver(migration):
		// What makes the VMI disappear from this host's view.
		delete(p.vmi.Labels, virtv1.MigrationTargetNodeNameLabel)
		delete(p.vmi.Annotations, virtv1.CreateMigrationTarget)
		return
	case migration.Failed:
		return
	}
	pod := p.launcherNamed(migration.TargetPod)
	if pod == nil || pod.Spec.NodeName != self.name || !p.alive(pod) {
		return
	}
	switch {
	case migration.EndTimestamp != nil:
		p.finalizeMigration()
	case migration.StartTimestamp != nil:
		p.receive(self, pod)
	case migration.TargetNodeAddress != self.ip:
		p.listen(self)
	}
}

func (p *pass) listen(self host) {
	migration := p.vmi.Status.MigrationState
	migration.TargetNodeAddress = self.ip
	migration.TargetDirectMigrationNodePorts = targetPorts
	if p.vmi.IsCPUDedicated() {
		// The source rewrites the domain's CPU set before it starts.
		migration.TargetNodeTopology = "{}"
		for cpu := range int(p.vmi.Spec.Domain.CPU.Cores) {
			migration.TargetCPUSet = append(migration.TargetCPUSet, cpu)
		}
	}
	p.event(corev1.EventTypeNormal, virtv1.PreparingTarget, "VirtualMachineInstance Migration Target Prepared.")
	p.event(corev1.EventTypeNormal, virtv1.PreparingTarget, fmt.Sprintf("Migration Target is listening at %s, on ports: 0,49152,49153", self.ip))
}

// receive sees the domain twice: when QEMU has opened it for the incoming
// migration, and when it runs.
func (p *pass) receive(self host, pod *corev1.Pod) {
	migration := p.vmi.Status.MigrationState
	domain := p.guests.get(p.vmi.UID)
	if domain == nil || domain.move == nil || domain.move.migration != migration.MigrationUID {
		return
	}
	if !migration.TargetNodeDomainDetected {
		migration.TargetNodeDomainDetected = true
		p.then(func() { p.guests.see(pod.UID) })
		return
	}
	if domain.move.done {
		p.takeOver(self, pod)
	}
}

// takeOver makes this host the owner. From here on the VMI is elsewhere for
// everybody, although the migration still has to be finalized.
func (p *pass) takeOver(self host, pod *corev1.Pod) {
	status := &p.vmi.Status
	now := ptr.To(metav1.NewTime(p.now))
	status.MigrationState.TargetNodeDomainReadyTimestamp = now
	status.MigrationState.EndTimestamp = now
	dropCondition(p.vmi, virtv1.VirtualMachineInstanceMigrationRequired)
	p.vmi.Labels[virtv1.NodeNameLabel] = self.name
	delete(p.vmi.Labels, virtv1.OutdatedLauncherImageLabel)
	delete(p.vmi.Annotations, virtv1.EvictionSourceAnnotation)
	status.LauncherContainerImageVersion = ""
	status.NodeName = self.name
	status.EvacuationNodeName = ""
	status.MigrationTransport = virtv1.MigrationTransportUnix
	p.event(corev1.EventTypeNormal, virtv1.Migrated, fmt.Sprintf("The VirtualMachineInstance migrated to node %s.", self.name))
	p.then(func() {
		p.guests.put(guest{vmi: p.vmi.UID, host: self.name, pod: pod.UID, since: p.now})
	})
}

func (p *pass) finalizeMigration() {
	p.vmi.Status.MigratedVolumes = nil
	p.vmi.Status.MigrationState.Completed = true
}
