package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/hack/devcluster/cluster"
	"github.com/drydock-dev/drydock/hack/devcluster/state"
	"github.com/drydock-dev/drydock/hack/devcluster/toolchain"
)

// settings are the flags that all commands share.
type settings struct {
	stateDir string
	source   string
}

func (s *settings) dir() (state.Dir, error) {
	dir, err := filepath.Abs(s.stateDir)
	if err != nil {
		return "", fmt.Errorf("resolving --state-dir: %w", err)
	}
	return state.Dir(dir), nil
}

func (s *settings) tools() (toolchain.Toolchain, error) {
	from := s.source
	if from == "" {
		from = "."
	}
	source, err := toolchain.Locate(from)
	if err != nil {
		return toolchain.Toolchain{}, fmt.Errorf("looking for the sources: %w", err)
	}
	return toolchain.Toolchain{Source: source}, nil
}

func newCommand() *cobra.Command {
	s := &settings{}
	root := &cobra.Command{
		Use:   "devcluster",
		Short: "A real Kubernetes and KubeVirt control plane with simulated hosts, without containers",
		// An error is printed once, and without the usage: it is rarely about flags.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringVar(&s.stateDir, "state-dir", ".devcluster", "folder that the cluster lives in")
	root.PersistentFlags().StringVar(&s.source, "source", "", "folder hack/devcluster of the sources (default: found upward from here)")
	root.AddCommand(newUp(s), newDown(s), newStatus(s), newKubeconfig(s), newBuild(s))
	return root
}

func newDown(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster; its logs stay in the state directory",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := s.dir()
			if err != nil {
				return err
			}
			return cluster.Down(cmd.Context(), dir, cmd.OutOrStdout())
		},
	}
}

func newStatus(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the components with their memory, the nodes, and the kubeconfig; fails unless all is well",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := s.dir()
			if err != nil {
				return err
			}
			return cluster.Status(cmd.Context(), dir, cmd.OutOrStdout())
		},
	}
}

func newKubeconfig(s *settings) *cobra.Command {
	var user, output string
	var groups []string
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Issue a client certificate and print a kubeconfig with it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := s.dir()
			if err != nil {
				return err
			}
			content, err := cluster.Kubeconfig(dir, user, groups)
			if err != nil {
				return err
			}
			if output == "" {
				_, err = cmd.OutOrStdout().Write(content)
				return err
			}
			if err := os.WriteFile(output, content, 0o600); err != nil {
				return fmt.Errorf("writing the kubeconfig: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&user, "user", "admin", "name of the user")
	cmd.Flags().StringArrayVar(&groups, "group", []string{"system:masters"}, "group of the user (repeatable)")
	cmd.Flags().StringVar(&output, "output", "", "file to write (default: standard output)")
	return cmd
}

func newBuild(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build all programs, and kubectl, into the Go cache and print their paths",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tools, err := s.tools()
			if err != nil {
				return err
			}
			return cluster.Build(cmd.Context(), tools, cluster.NewReport(cmd.OutOrStdout()))
		},
	}
}
