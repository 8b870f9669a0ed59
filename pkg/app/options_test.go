package app

import (
	"strings"
	"testing"
	"time"
)

func TestOptionsNameWhatIsWrong(t *testing.T) {
	tls := TLSOptions{WebhookService: "drydock-webhook", APIService: "drydock-api", WebhookConfiguration: "drydock", Secret: "drydock-tls", Source: TLSSelf}
	good := Options{TLS: tls, Namespace: "harvester-system", ForcePolicy: ForceStayOff, PossibleIsConsent: ConsentAuto, Harvester: HarvesterAuto, LabelSyncPrefix: "harvesterhci.io/", Webhook: true, LogLevel: "info", LogFormat: "text"}
	if err := good.validate(); err != nil {
		t.Fatalf("good options are refused: %v", err)
	}
	for want, change := range map[string]func(*Options){
		"--namespace":                      func(o *Options) { o.Namespace = "" },
		"--drain-timeout: -5s is negative": func(o *Options) { o.DrainTimeout = -5 * time.Second },
		`--force-policy: "x" is neither "stay-off" nor "honor-strategy"`:             func(o *Options) { o.ForcePolicy = "x" },
		`--live-migrate-if-possible-consents: "x" is neither "auto", "yes" nor "no"`: func(o *Options) { o.PossibleIsConsent = "x" },
		`--harvester: "x" is neither "auto", "takeover" nor "absent"`:                func(o *Options) { o.Harvester = "x" },
		`--harvester: "takeover" needs --webhook`:                                    func(o *Options) { o.Harvester, o.Webhook = HarvesterTakeover, false },
		`--log-format: "xml" is neither "text" nor "json"`:                           func(o *Options) { o.LogFormat = "xml" },
		`--webhook-service: "a.b" is not the name of a Service`:                      func(o *Options) { o.TLS.WebhookService = "a.b" },
		`--api-service: "" is not the name of a Service`:                             func(o *Options) { o.TLS.APIService = "" },
		`--webhook-configuration: "A" is not a name`:                                 func(o *Options) { o.TLS.WebhookConfiguration = "A" },
		`--tls-secret: "" is not a name`:                                             func(o *Options) { o.TLS.Secret = "" },
		`--tls-source: "x" is neither "self" nor "secret"`:                           func(o *Options) { o.TLS.Source = "x" },
		"--shutdown-delay: -1s is negative":                                          func(o *Options) { o.TLS.ShutdownDelay = -time.Second },
		`--tls-lifetimes: "ca=x" is not a positive duration`:                         func(o *Options) { o.TLS.Lifetimes = "ca=x" },
		`--tls-lifetimes: "cat=1s" names none of`:                                    func(o *Options) { o.TLS.Lifetimes = "settle=1s,cat=1s" },
		`--api-trusted-proxies: "10.0.0.0/99" is neither an address nor a range`:     func(o *Options) { o.Actions.TrustedProxies = []string{"10.0.0.0/99"} },
		"--log-level": func(o *Options) { o.LogLevel = "loud" },
		`--label-sync-keys: "a b" is not the key of a label`:                            func(o *Options) { o.LabelSyncKeys = []string{"a b"} },
		`--label-sync-keys: "x.kubevirt.io/y" is KubeVirt's own: allowed`:               func(o *Options) { o.LabelSyncKeys = []string{"tier", "x.kubevirt.io/y"} },
		`--label-sync-prefix: "harvesterhci.io" is not a domain with a slash behind it`: func(o *Options) { o.LabelSyncPrefix = "harvesterhci.io" },
		`--label-sync-prefix: "" is not`:                                                func(o *Options) { o.LabelSyncPrefix = "" },
		`--label-sync-prefix: "kubevirt.io/" is KubeVirt's own`:                         func(o *Options) { o.LabelSyncPrefix = "kubevirt.io/" },
	} {
		options := good
		change(&options)
		if err := options.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}
