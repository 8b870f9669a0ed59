// Package app is the composition root: flags, clients, caches, leader election, health
// and metrics, and the order in which all of it starts. It is ring 4, the only package
// that knows every other.
package app

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v3"
)

// Options are the settings of a manager.
type Options struct {
	// Kubeconfig is a file; "" uses the service account of the pod.
	Kubeconfig string
	// Namespace holds Drydock's own Leases.
	Namespace string
	// LeaderElect makes replicas agree on one that acts.
	LeaderElect bool
	// Election is how they do.
	Election ElectionOptions
	// Webhook and API serve the admission webhooks and the node actions.
	Webhook, API bool
	// TLS is how they are served.
	TLS TLSOptions
	// Actions is how the API is reached.
	Actions APIOptions
	// DrainTimeout limits a drain; 0 means none.
	DrainTimeout time.Duration
	// ForcePolicy says what force does to VMs with a restart strategy.
	ForcePolicy string
	// PossibleIsConsent says whether a template's LiveMigrateIfPossible allows an
	// interruption.
	PossibleIsConsent string
	// Harvester says how to live beside Harvester's own controllers.
	Harvester string
	// LabelSync copies labels from VMs to VMIs, the strategy and LabelSyncKeys, and those
	// with LabelSyncPrefix from VMIs to launcher pods.
	LabelSync       bool
	LabelSyncKeys   []string
	LabelSyncPrefix string
	// MetricsAddress and HealthAddress are where metrics and health are served; "0"
	// for not at all.
	MetricsAddress, HealthAddress string
	LogLevel, LogFormat           string
}

// The values of Options.ForcePolicy.
const (
	ForceStayOff       = "stay-off"
	ForceHonorStrategy = "honor-strategy"
)

// The values of Options.PossibleIsConsent.
const (
	ConsentAuto = "auto"
	ConsentYes  = "yes"
	ConsentNo   = "no"
)

// Version and Commit are set by the build.
var (
	Version = "dev"
	Commit  string
)

// version names the version and, when the build knows it, the commit.
func version() string {
	commit := Commit
	if info, ok := debug.ReadBuildInfo(); ok && commit == "" {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				commit = setting.Value
			}
		}
	}
	if commit == "" {
		return Version
	}
	return Version + " (" + commit + ")"
}

// Command is the program's command line. Each flag has an environment variable.
func Command() *cli.Command {
	var o Options
	return &cli.Command{
		Name:    "drydock",
		Usage:   "take the nodes of a KubeVirt cluster into maintenance and back",
		Version: version(),
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "kubeconfig", Sources: cli.EnvVars("KUBECONFIG"), Destination: &o.Kubeconfig, Usage: "kubeconfig `FILE`; without it the service account of the pod is used"},
			&cli.StringFlag{Name: "namespace", Sources: cli.EnvVars("DRYDOCK_NAMESPACE"), Destination: &o.Namespace, Value: "harvester-system", Usage: "`NAMESPACE` of Drydock's own leases"},
			&cli.BoolFlag{Name: "leader-elect", Sources: cli.EnvVars("DRYDOCK_LEADER_ELECT"), Destination: &o.LeaderElect, Value: true, Usage: "act only while holding the lease \"drydock\"; several replicas need it"},
			&cli.BoolFlag{Name: "webhook", Sources: cli.EnvVars("DRYDOCK_WEBHOOK"), Destination: &o.Webhook, Value: true, Usage: "serve the admission webhooks"},
			&cli.BoolFlag{Name: "api", Sources: cli.EnvVars("DRYDOCK_API"), Destination: &o.API, Value: true, Usage: "serve the node actions over HTTP"},
			&cli.DurationFlag{Name: "drain-timeout", Sources: cli.EnvVars("DRYDOCK_DRAIN_TIMEOUT"), Destination: &o.DrainTimeout, Usage: "give a drain up after this long, counted from its start across restarts; 0 for never"},
			&cli.StringFlag{Name: "force-policy", Sources: cli.EnvVars("DRYDOCK_FORCE_POLICY"), Destination: &o.ForcePolicy, Value: ForceStayOff, Usage: "what force does to VMs that ask for a restart: \"stay-off\" or \"honor-strategy\""},
			&cli.StringFlag{Name: "live-migrate-if-possible-consents", Sources: cli.EnvVars("DRYDOCK_LIVE_MIGRATE_IF_POSSIBLE_CONSENTS"), Destination: &o.PossibleIsConsent, Value: ConsentAuto, Usage: "whether evictionStrategy LiveMigrateIfPossible in a VM's template allows to shut the VM down when it cannot move: \"yes\", \"no\", or \"auto\", which is no where Harvester is installed, since Harvester writes it into every VM"},
			&cli.StringFlag{Name: "harvester", Sources: cli.EnvVars("DRYDOCK_HARVESTER"), Destination: &o.Harvester, Value: HarvesterAuto, Usage: "beside Harvester's own controllers, which drain nodes as well: \"auto\" stays idle while they run, \"takeover\" renames requests before they see them (needs the webhooks), \"absent\" does not look for them"},
			&cli.StringFlag{Name: "metrics-bind-address", Sources: cli.EnvVars("DRYDOCK_METRICS_BIND_ADDRESS"), Destination: &o.MetricsAddress, Value: ":8080", Usage: "`ADDRESS` of /metrics; \"0\" for none"},
			&cli.StringFlag{Name: "health-bind-address", Sources: cli.EnvVars("DRYDOCK_HEALTH_BIND_ADDRESS"), Destination: &o.HealthAddress, Value: ":8081", Usage: "`ADDRESS` of /healthz and /readyz; \"0\" for none"},
			&cli.StringFlag{Name: "log-level", Sources: cli.EnvVars("DRYDOCK_LOG_LEVEL"), Destination: &o.LogLevel, Value: "info", Usage: "panic, fatal, error, warn, info, debug or trace"},
			&cli.StringFlag{Name: "log-format", Sources: cli.EnvVars("DRYDOCK_LOG_FORMAT"), Destination: &o.LogFormat, Value: "text", Usage: "text or json"},
		}, electionFlags(&o.Election), tlsFlags(&o.TLS), apiFlags(&o.Actions), labelFlags(&o)),
		Commands: []*cli.Command{bundleCommand(&o)},
		Action: func(ctx context.Context, command *cli.Command) error {
			if command.Args().Present() {
				return fmt.Errorf("unexpected argument %q: drydock takes flags only, see --help", command.Args().First())
			}
			return Run(ctx, o)
		},
	}
}

// validate names the flag, the value and what is allowed.
func (o *Options) validate() error {
	switch {
	case o.Namespace == "":
		return fmt.Errorf("--namespace: must not be empty")
	case o.DrainTimeout < 0:
		return fmt.Errorf("--drain-timeout: %s is negative; 0 means no limit", o.DrainTimeout)
	case o.ForcePolicy != ForceStayOff && o.ForcePolicy != ForceHonorStrategy:
		return fmt.Errorf("--force-policy: %q is neither %q nor %q", o.ForcePolicy, ForceStayOff, ForceHonorStrategy)
	case o.PossibleIsConsent != ConsentAuto && o.PossibleIsConsent != ConsentYes && o.PossibleIsConsent != ConsentNo:
		return fmt.Errorf("--live-migrate-if-possible-consents: %q is neither %q, %q nor %q", o.PossibleIsConsent, ConsentAuto, ConsentYes, ConsentNo)
	case o.Harvester != HarvesterAuto && o.Harvester != HarvesterTakeover && o.Harvester != HarvesterAbsent:
		return fmt.Errorf("--harvester: %q is neither %q, %q nor %q", o.Harvester, HarvesterAuto, HarvesterTakeover, HarvesterAbsent)
	case o.Harvester == HarvesterTakeover && !o.Webhook:
		return fmt.Errorf("--harvester: %q needs --webhook, which renames the requests", o.Harvester)
	case o.LogFormat != "text" && o.LogFormat != "json":
		return fmt.Errorf("--log-format: %q is neither \"text\" nor \"json\"", o.LogFormat)
	}
	if _, err := logrus.ParseLevel(o.LogLevel); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	if err := o.validateLabels(); err != nil {
		return err
	}
	if err := o.TLS.validate(); err != nil {
		return err
	}
	return o.Actions.validate()
}

// setUpLog configures the process's logger, which wrangler and lasso use as well.
func (o *Options) setUpLog() {
	level, err := logrus.ParseLevel(o.LogLevel)
	if err == nil {
		logrus.SetLevel(level)
	}
	if o.LogFormat == "json" {
		logrus.SetFormatter(&logrus.JSONFormatter{})
		return
	}
	logrus.SetFormatter(&logrus.TextFormatter{FullTimestamp: true})
}
