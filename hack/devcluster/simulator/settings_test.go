package simulator

import (
	"math"
	"testing"
	"time"
)

func TestSecondsAreReadGenerously(t *testing.T) {
	for name, test := range map[string]struct {
		value string
		want  time.Duration
		bad   bool
	}{
		"a fraction":                          {value: "0.25", want: 250 * time.Millisecond},
		"zero":                                {value: "0", want: 0},
		"never":                               {value: "never", want: never},
		"a word counts as absent":             {value: "soon", want: time.Second, bad: true},
		"a negative number counts as absent":  {value: "-1", want: time.Second, bad: true},
		"infinity counts as absent":           {value: "inf", want: time.Second, bad: true},
		"an empty value counts as absent":     {value: "", want: time.Second, bad: true},
		"a duration with unit is not seconds": {value: "10s", want: time.Second, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings{annotations: map[string]string{annotationMigration: test.value}}
			if got := s.seconds(annotationMigration, time.Second, true); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if (len(s.bad) > 0) != test.bad {
				t.Errorf("complaints: %v", s.bad)
			}
		})
	}
}

func TestNeverIsRefusedWhereItMakesNoSense(t *testing.T) {
	s := settings{annotations: map[string]string{annotationExitAfter: wordNever}}
	if got := s.seconds(annotationExitAfter, time.Minute, false); got != time.Minute || len(s.bad) != 1 {
		t.Errorf("got %s, complaints %v", got, s.bad)
	}
}

func TestFailuresAreANumberOrAlways(t *testing.T) {
	for value, want := range map[string]int{"3": 3, "always": math.MaxInt, "-1": 0, "often": 0} {
		s := settings{annotations: map[string]string{annotationMigrationFailures: value}}
		if got := s.count(annotationMigrationFailures); got != want {
			t.Errorf("%q is %d, want %d", value, got, want)
		}
	}
}

func TestReasonAndMessageAreTwoParts(t *testing.T) {
	for value, want := range map[string]bool{
		"HostDeviceNotLiveMigratable: VMI uses a PCI host devices": true,
		"no colon":              false,
		"two words: and a text": false,
		"Reason:":               false,
	} {
		s := settings{annotations: map[string]string{annotationNotMigratable: value}}
		if _, _, set := s.reasonAndMessage(annotationNotMigratable); set != want {
			t.Errorf("%q: understood is %v, want %v", value, set, want)
		}
	}
}
