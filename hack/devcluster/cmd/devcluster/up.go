package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/hack/devcluster/cluster"
)

func newUp(s *settings) *cobra.Command {
	var detach bool
	opts := cluster.Options{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Boot a cluster and keep it until interrupted",
		Long: `Boot a cluster and keep it until interrupted.

Every cluster starts empty. A host that sends no heartbeats is NotReady after
about 20 seconds. The requests of --audit-user, and of members of the group
sim.drydock.dev:audited, are logged to audit.log in the state directory.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if opts.Dir, err = s.dir(); err != nil {
				return err
			}
			if opts.Tools, err = s.tools(); err != nil {
				return err
			}
			if opts.Hosts.ControlPlanes < 0 || opts.Hosts.Workers < 0 || opts.Hosts.Witnesses < 0 {
				return errors.New("the number of hosts cannot be negative")
			}
			if detach {
				return cluster.Detach(cmd.Context(), opts.Dir, cmd.OutOrStdout())
			}
			opts.Report = cluster.NewReport(cmd.OutOrStdout())
			return cluster.Up(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&detach, "detach", false, "return when the cluster is ready and leave it running in the background")
	flags.IntVar(&opts.Hosts.ControlPlanes, "control-planes", 3, "number of control-plane hosts (cp1…)")
	flags.IntVar(&opts.Hosts.Workers, "workers", 0, "number of worker hosts (w1…)")
	flags.IntVar(&opts.Hosts.Witnesses, "witnesses", 0, "number of witness hosts, with the etcd role only (witness1…)")
	flags.StringArrayVar(&opts.AuditUsers, "audit-user", nil, "user whose requests are logged (repeatable)")
	flags.IntVar(&opts.KubernetesVerbosity, "kubernetes-log-level", 0, "verbosity of the Kubernetes components")
	flags.UintVar(&opts.KubeVirtVerbosity, "kubevirt-log-level", 2, "verbosity of the KubeVirt components")
	return cmd
}
