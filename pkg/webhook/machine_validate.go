package webhook

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// validateMachine refuses a strategy that means nothing, at the moment that it is
// written.
func validateMachine(request *admissionv1.AdmissionRequest) (verdict, error) {
	old, now, err := machines(request)
	if err != nil || now == nil || now.DeletionTimestamp != nil {
		return verdict{}, err
	}
	if refusal := wrongStrategy(old, now); refusal != "" {
		return verdict{refusal: refusal, invalid: true}, nil
	}
	return verdict{warnings: unwise(old, now)}, nil
}

var strategyField = fmt.Sprintf("metadata.labels[%s]", maintenance.LabelStrategy)

// wrongStrategy is the refusal of a value that this write brings, "" for none. One that
// was there before is no reason: it may be older than the webhook, and the write about
// something else.
func wrongStrategy(old, now *machine) string {
	_, unknown, valid := maintenance.StrategyOf(now.Labels)
	if valid || old != nil && sameStrategy(old, now) {
		return ""
	}
	if unknown == "" {
		unknown = `""`
	}
	return fmt.Sprintf("%s: invalid maintenance mode strategy: %s; valid values are %s", strategyField, unknown, maintenance.StrategyNames())
}

func sameStrategy(a, b *machine) bool {
	before, had := a.Labels[maintenance.LabelStrategy]
	after, has := b.Labels[maintenance.LabelStrategy]
	return before == after && had == has
}

// unwise are warnings about what is allowed and may surprise. They come with a write
// that has to do with it, not with each that passes.
func unwise(old, now *machine) []string {
	strategy, unknown, valid := maintenance.StrategyOf(now.Labels)
	if !valid {
		if old != nil && sameSpec(old, now) {
			return nil
		}
		return []string{fmt.Sprintf("%s: %q is no maintenance mode strategy and is taken for %s; valid values are %s", strategyField, unknown, maintenance.StrategyMigrate, maintenance.StrategyNames())}
	}
	if old != nil && sameStrategy(old, now) && sameRunStrategy(old, now) && old.evictionStrategy() == now.evictionStrategy() {
		return nil
	}
	var warnings []string
	if strategy.Stops() && now.runStrategy != nil && *now.runStrategy == kubevirtv1.RunStrategyManual {
		warnings = append(warnings, manualWarning(strategy))
	}
	if warning := evictionWarning(strategy, now.evictionStrategy()); warning != "" {
		warnings = append(warnings, warning)
	}
	return warnings
}

func sameRunStrategy(a, b *machine) bool {
	return equal(a.runStrategy, b.runStrategy) && equal(a.running, b.running)
}

func equal[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// manualWarning: a Manual VM is off until it is asked to start, and restoring its run
// strategy asks for nothing.
func manualWarning(strategy maintenance.Strategy) string {
	if strategy.Restarts() {
		return fmt.Sprintf("%s: %s halts the VM although spec.runStrategy is Manual; only a start request brings it back, which Drydock sends and repeats", strategyField, strategy)
	}
	return fmt.Sprintf("%s: %s halts the VM although spec.runStrategy is Manual, and leaves spec.runStrategy Halted", strategyField, strategy)
}

// evictionWarning: the template's eviction strategy decides how a VM is moved, and
// whether at all. KubeVirt's other two values do what Migrate says where it is possible.
func evictionWarning(strategy maintenance.Strategy, eviction kubevirtv1.EvictionStrategy) string {
	if strategy.Stops() {
		return ""
	}
	switch eviction {
	case kubevirtv1.EvictionStrategyNone:
		return fmt.Sprintf("%s: %s, but spec.template.spec.evictionStrategy None allows to shut the VM down instead of moving it", strategyField, strategy)
	case kubevirtv1.EvictionStrategyExternal:
		return fmt.Sprintf("%s: %s, but with spec.template.spec.evictionStrategy External maintenance waits for another controller to move the VM", strategyField, strategy)
	}
	return ""
}
