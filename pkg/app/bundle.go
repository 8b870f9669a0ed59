package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/pkg/bundle"
	"github.com/drydock-dev/drydock/pkg/execute"
	"github.com/drydock-dev/drydock/pkg/kubevirt"
)

// bundleCommand is `drydock bundle`. Kubeconfig, namespace and the name of the webhook
// configurations are the program's flags.
func bundleCommand(o *Options) *cli.Command {
	var output string
	var since time.Duration
	return &cli.Command{
		Name:  "bundle",
		Usage: "write a support bundle: nodes, VMs, migrations, events, plans and logs in one archive, without secrets and personal data",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Destination: &output, Usage: "`FILE` to write, which must not exist; \"-\" for the standard output (default: drydock-bundle-TIME.tar.gz)"},
			&cli.DurationFlag{Name: "since", Destination: &since, Value: 24 * time.Hour, Usage: "how far back events and logs go; 0 for as far as there are any"},
		},
		Action: func(ctx context.Context, command *cli.Command) error {
			switch {
			case command.Args().Present():
				return fmt.Errorf("unexpected argument %q: drydock bundle takes flags only, see --help", command.Args().First())
			case since < 0:
				return fmt.Errorf("--since: %s is negative; 0 means no limit", since)
			case o.Namespace == "":
				return errors.New("--namespace: must not be empty")
			}
			options, err := bundleOptions(o, since)
			if err != nil {
				return err
			}
			if output == "-" {
				return writeBundle(ctx, command.Writer, command.ErrWriter, "the standard output", options)
			}
			if output == "" {
				output = "drydock-bundle-" + options.Clock.Now().UTC().Format("20060102-150405") + ".tar.gz"
			}
			return bundleFile(ctx, command.ErrWriter, output, options)
		},
	}
}

func bundleOptions(o *Options, since time.Duration) (bundle.Options, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return bundle.Options{}, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 50, 100
	config.UserAgent = "drydock-bundle/" + Version
	config.WarningHandlerWithContext = rest.NoWarnings{}
	options := bundle.Options{
		Namespace: o.Namespace, Leases: []string{leaderLease, execute.LedgerName}, WebhookConfiguration: o.TLS.WebhookConfiguration,
		LauncherSelector: kubevirt.LauncherSelector, Since: since, Version: version(), Clock: clock.RealClock{},
	}
	if options.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return bundle.Options{}, fmt.Errorf("client: %w", err)
	}
	if options.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return bundle.Options{}, fmt.Errorf("client: %w", err)
	}
	return options, nil
}

// bundleFile writes the archive, for its owner's eyes, and leaves none that is not whole.
func bundleFile(ctx context.Context, report io.Writer, name string, options bundle.Options) (err error) {
	file, err := os.OpenFile(filepath.Clean(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	defer func() {
		if closed := file.Close(); err == nil && closed != nil {
			err = fmt.Errorf("--output: %w", closed)
		}
		if err != nil {
			_ = os.Remove(name)
		}
	}()
	return writeBundle(ctx, file, report, name, options)
}

func writeBundle(ctx context.Context, w, report io.Writer, name string, options bundle.Options) error {
	result, err := bundle.Write(ctx, w, options)
	if err != nil {
		return err
	}
	fmt.Fprintf(report, "%d objects were written to %s\n", result.Objects, name)
	if len(result.Unread) > 0 {
		fmt.Fprintln(report, "not read, see unread.txt in it:")
	}
	for _, what := range result.Unread {
		fmt.Fprintln(report, "  "+what)
	}
	return nil
}
