package simulator

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Annotations that set how simulated things behave. README.md describes them
// for people; keep the two in step.
const (
	annotationHost     = "sim.drydock.dev/host"
	annotationPower    = "sim.drydock.dev/power"
	annotationCPU      = "sim.drydock.dev/cpu"
	annotationMemory   = "sim.drydock.dev/memory"
	annotationCPUModel = "sim.drydock.dev/cpu-model"

	annotationTermination = "sim.drydock.dev/termination-seconds"
	annotationExitAfter   = "sim.drydock.dev/exit-after-seconds"
	annotationReady       = "sim.drydock.dev/ready"

	annotationBoot              = "sim.drydock.dev/boot-seconds"
	annotationShutdown          = "sim.drydock.dev/shutdown-seconds"
	annotationMigration         = "sim.drydock.dev/migration-seconds"
	annotationMigrationFailures = "sim.drydock.dev/migration-failures"
	annotationMigrationReason   = "sim.drydock.dev/migration-failure-reason"
	annotationNotMigratable     = "sim.drydock.dev/not-live-migratable"
	annotationPaused            = "sim.drydock.dev/paused"
	annotationGuest             = "sim.drydock.dev/guest"

	annotationReplicas     = "sim.drydock.dev/replicas"
	annotationReplicaState = "sim.drydock.dev/state"
)

const (
	powerOn  = "on"
	powerOff = "off"

	guestPowerOff = "power-off"
	guestCrash    = "crash"

	wordNever  = "never"
	wordAlways = "always"
	wordTrue   = "true"
	wordFalse  = "false"
)

// never is longer than any test, and still safe to add to a point in time.
const never = time.Duration(math.MaxInt64 / 4)

// A badValue says what is wrong with an annotation and what would be right, so
// that a scenario with a typing error is not mistaken for the product's fault.
type badValue struct {
	annotation, value, allowed string
}

// Error names the annotation, its value and what is allowed.
func (b *badValue) Error() string {
	return fmt.Sprintf("annotation %s has the value %q; allowed: %s", b.annotation, b.value, b.allowed)
}

// Settings reads behaviour from one object's annotations and collects what it
// could not understand. A value that makes no sense counts as absent.
type settings struct {
	annotations map[string]string
	bad         []badValue
}

func (s *settings) reject(annotation, allowed string) {
	s.bad = append(s.bad, badValue{annotation: annotation, value: s.annotations[annotation], allowed: allowed})
}

// seconds reads a duration. With allowNever the word "never" means a duration
// that does not end.
func (s *settings) seconds(annotation string, fallback time.Duration, allowNever bool) time.Duration {
	value, set := s.annotations[annotation]
	if !set {
		return fallback
	}
	if allowNever && value == wordNever {
		return never
	}
	number, err := strconv.ParseFloat(value, 64)
	if err != nil || number < 0 || math.IsNaN(number) || number > (365*24*time.Hour).Seconds() {
		allowed := "a number of seconds, fractions allowed"
		if allowNever {
			allowed += `, or "never"`
		}
		s.reject(annotation, allowed)
		return fallback
	}
	return time.Duration(number * float64(time.Second))
}

// count reads a whole number, where "always" is more than anything.
func (s *settings) count(annotation string) int {
	value, set := s.annotations[annotation]
	if !set {
		return 0
	}
	if value == wordAlways {
		return math.MaxInt
	}
	number, err := strconv.Atoi(value)
	if err != nil || number < 0 {
		s.reject(annotation, `a whole number, or "always"`)
		return 0
	}
	return number
}

// oneOf reads a word out of a fixed set; an empty answer means it is not set.
func (s *settings) oneOf(annotation string, words ...string) string {
	value, set := s.annotations[annotation]
	if !set {
		return ""
	}
	for _, word := range words {
		if value == word {
			return word
		}
	}
	s.reject(annotation, `"`+strings.Join(words, `" or "`)+`"`)
	return ""
}

func (s *settings) quantity(annotation, fallback string) resource.Quantity {
	if value, set := s.annotations[annotation]; set {
		parsed, err := resource.ParseQuantity(value)
		if err == nil && parsed.Sign() > 0 {
			return parsed
		}
		s.reject(annotation, "a positive Kubernetes quantity such as 16 or 64Gi")
	}
	return resource.MustParse(fallback)
}

// reasonAndMessage reads "<Reason>: <message>".
func (s *settings) reasonAndMessage(annotation string) (reason, message string, set bool) {
	value, set := s.annotations[annotation]
	if !set {
		return "", "", false
	}
	reason, message, found := strings.Cut(value, ":")
	reason, message = strings.TrimSpace(reason), strings.TrimSpace(message)
	if !found || reason == "" || message == "" || strings.ContainsAny(reason, " \t") {
		s.reject(annotation, `"<Reason>: <message>", the reason being one word`)
		return "", "", false
	}
	return reason, message, true
}
