package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// texts are the values of a label.
type texts = []string

// begin makes every series whose labels are known beforehand. One that is born with its
// first event is born at 1, and neither rate() nor increase() sees what was before: of a
// refusal a month nobody would ever hear. What has an HTTP status or a resource of the
// API server as a label is born when it occurs.
func (m *Metrics) begin() {
	counted(m.requests, texts{"admitted", "refused"})
	counted(m.refused, labels(plan.CheckNode, plan.CheckQuorum, plan.CheckLastNode, plan.CheckUpgrade, plan.CheckStorage, plan.CheckVMs))
	counted(m.handled, labels(plan.Move), texts{"moved"})
	counted(m.handled, labels(plan.Delete), texts{"deleted"})
	counted(m.handled, labels(plan.StopRestartAfterEnable, plan.StopRestartAfterDisable, plan.StopStayOff), texts{"started", "started_by_others", "stays_off"})
	counted(m.sync, texts{"VirtualMachineInstance", "Pod"}, texts{"written", "conflict", "gone", "failed"})
	measured(m.drains, texts{"completed", "left", "timed_out", "uncordoned"})
	measured(m.phases, labels(maintenance.PhaseValidating, maintenance.PhaseDraining, maintenance.PhaseEvacuating, maintenance.PhaseCompleted, maintenance.PhaseError))
	measured(m.migrations, labels(plan.ByEviction, plan.ByMigration), texts{"succeeded", "failed", "withdrawn"})
	measured(m.stops, labels(maintenance.RestartAfterEnable, maintenance.RestartAfterDisable, maintenance.RestartNever))
}

func labels[T ~string](values ...T) texts {
	all := make(texts, len(values))
	for n, value := range values {
		all[n] = string(value)
	}
	return all
}

func counted(vector *prometheus.CounterVec, values ...texts) {
	each(values, nil, func(combination texts) { vector.WithLabelValues(combination...) })
}

func measured(vector *prometheus.HistogramVec, values ...texts) {
	each(values, nil, func(combination texts) { vector.WithLabelValues(combination...) })
}

// each visits all combinations of a value for each label.
func each(values []texts, chosen texts, visit func(texts)) {
	if len(values) == 0 {
		visit(chosen)
		return
	}
	for _, value := range values[0] {
		each(values[1:], append(slices.Clone(chosen), value), visit)
	}
}
