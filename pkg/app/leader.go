package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/drydock-dev/drydock/pkg/metrics"
)

// leaderLease is the Lease that the acting replica holds.
const leaderLease = "drydock"

var errLostLease = errors.New("the leader lease was lost")

// lead calls start when this replica may act, and returns when the context ends or
// the lease is lost. client-go's election is used rather than wrangler's: that one
// identifies itself by host name, waits 45 s for a dead leader, and does not release
// its lease, so that a drained leader would leave a gap.
func lead(ctx context.Context, client kubernetes.Interface, o Options, m *metrics.Metrics, start func() error) error {
	if !o.LeaderElect {
		m.Leading(true)
		if err := start(); err != nil {
			return err
		}
		logrus.Info("leading")
		<-ctx.Done()
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	identity := host + "_" + string(uuid.NewUUID())
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: leaderLease, Namespace: o.Namespace},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				m.Leading(true)
				if err := start(); err != nil {
					failed <- err
					cancel()
					return
				}
				logrus.WithField("identity", identity).Info("leading")
			},
			OnStoppedLeading: func() { m.Leading(false) },
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	elector.Run(ctx)
	select {
	case err := <-failed:
		return err
	default:
	}
	if ctx.Err() == nil {
		return errLostLease
	}
	return nil
}
