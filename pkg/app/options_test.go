package app

import (
	"strings"
	"testing"
	"time"
)

func TestOptionsNameWhatIsWrong(t *testing.T) {
	good := Options{Namespace: "harvester-system", ForcePolicy: ForceStayOff, PossibleIsConsent: ConsentAuto, LogLevel: "info", LogFormat: "text"}
	if err := good.validate(); err != nil {
		t.Fatalf("good options are refused: %v", err)
	}
	for want, change := range map[string]func(*Options){
		"--namespace":                      func(o *Options) { o.Namespace = "" },
		"--drain-timeout: -5s is negative": func(o *Options) { o.DrainTimeout = -5 * time.Second },
		`--force-policy: "x" is neither "stay-off" nor "honor-strategy"`:             func(o *Options) { o.ForcePolicy = "x" },
		`--live-migrate-if-possible-consents: "x" is neither "auto", "yes" nor "no"`: func(o *Options) { o.PossibleIsConsent = "x" },
		`--log-format: "xml" is neither "text" nor "json"`:                           func(o *Options) { o.LogFormat = "xml" },
		"--log-level": func(o *Options) { o.LogLevel = "loud" },
	} {
		options := good
		change(&options)
		if err := options.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}
