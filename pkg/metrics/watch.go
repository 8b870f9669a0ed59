package metrics

import (
	"fmt"
	"time"

	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// Lookup finds what a change belongs to; nil for nothing.
type Lookup struct {
	VM func(namespace, name string) *kubevirtv1.VirtualMachine
	// Recorded reports a node that Drydock has in maintenance.
	Recorded func(node string) bool
}

// Watch measures migrations and stops by what the caches show, since KubeVirt carries
// them out. Every replica sees them, the leader counts; what ends while nobody leads is
// not counted.
func (m *Metrics) Watch(migrations, vmis cache.SharedIndexInformer, lookup Lookup) error {
	if _, err := migrations.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, now any) {
		old, okOld := before.(*kubevirtv1.VirtualMachineInstanceMigration)
		migration, okNow := now.(*kubevirtv1.VirtualMachineInstanceMigration)
		if okOld && okNow && m.leading.Load() && !old.IsFinal() && migration.IsFinal() {
			m.migrated(migration, lookup)
		}
	}}); err != nil {
		return fmt.Errorf("watch of migrations: %w", err)
	}
	if _, err := vmis.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		if vmi, ok := obj.(*kubevirtv1.VirtualMachineInstance); ok && m.leading.Load() {
			m.stopped(vmi, lookup)
		}
	}}); err != nil {
		return fmt.Errorf("watch of VMIs: %w", err)
	}
	return nil
}

// migrated measures a migration that has ended, if it was made for a maintenance.
func (m *Metrics) migrated(migration *kubevirtv1.VirtualMachineInstanceMigration, lookup Lookup) {
	means := plan.ByEviction
	if _, own := migration.Labels[maintenance.LabelOwnMigration]; own {
		means = plan.ByMigration
	} else if node := migration.Annotations[kubevirtv1.EvacuationMigrationAnnotation]; node == "" || !lookup.Recorded(node) {
		return
	}
	outcome := "failed"
	switch {
	case migration.Status.Phase == kubevirtv1.MigrationSucceeded:
		outcome = "succeeded"
		m.handled.WithLabelValues(string(plan.Move), "moved").Inc()
	case migration.DeletionTimestamp != nil:
		outcome = "withdrawn"
	}
	m.migrations.WithLabelValues(string(means), outcome).Observe(m.ended(migration).Sub(migration.CreationTimestamp.Time).Seconds())
}

// ended is when a migration came into its last phase. Both ends of the interval are
// then by the cluster's clocks and not by this machine's.
func (m *Metrics) ended(migration *kubevirtv1.VirtualMachineInstanceMigration) time.Time {
	for _, transition := range migration.Status.PhaseTransitionTimestamps {
		if transition.Phase == migration.Status.Phase {
			return transition.PhaseTransitionTimestamp.Time
		}
	}
	return m.clock.Now()
}

// stopped measures how long an instance took to end, if Drydock stopped its VM.
func (m *Metrics) stopped(vmi *kubevirtv1.VirtualMachineInstance, lookup Lookup) {
	vm := lookup.VM(vmi.Namespace, vmi.Name)
	if vm == nil || vmi.DeletionTimestamp == nil {
		return
	}
	record, err := maintenance.VMRecordOf(vm)
	if err != nil || record == nil || record.Stopped != vmi.UID {
		return
	}
	m.stops.WithLabelValues(string(record.Restart)).Observe(max(0, m.clock.Since(vmi.DeletionTimestamp.Time)).Seconds())
}
