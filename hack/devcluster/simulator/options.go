package simulator

import (
	"errors"
	"log/slog"

	"k8s.io/client-go/rest"
)

// Options are what the simulator needs from the cluster it lives in.
type Options struct {
	// Admin is a client configuration that may do everything. It plays kubelet,
	// Longhorn and the parts of a host that have no identity of their own.
	Admin *rest.Config
	// Handler is the configuration of system:serviceaccount:kubevirt:kubevirt-handler.
	// VMIs are written under this identity alone: virt-api's webhooks let nobody
	// else change a VMI's labels and status, and the account may update VMIs but
	// not patch them, so a simulator that cheats here would not be noticed otherwise.
	Handler *rest.Config
	// StateDir is a folder of the simulator's own. What has to survive a restart
	// and is not kept in the cluster goes there.
	StateDir string
	// Log receives what a host would write into its journal. Nil discards it.
	Log *slog.Logger
}

func (o *Options) validate() error {
	if o.Admin == nil || o.Handler == nil {
		return errors.New("simulator: both Admin and Handler client configurations are needed")
	}
	if o.StateDir == "" {
		return errors.New("simulator: StateDir is empty")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}
