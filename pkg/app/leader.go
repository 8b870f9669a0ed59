package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/drydock-dev/drydock/pkg/metrics"
)

// leaderLease is the Lease that the acting replica holds.
const leaderLease = "drydock"

var errLostLease = errors.New("the leader lease was lost")

// ElectionOptions say how replicas agree on the one that acts.
type ElectionOptions struct {
	// LeaseDuration is how long a leader is missed that ended without a word,
	// RenewDeadline how long one goes on that cannot renew its lease, and RetryPeriod how
	// often it is renewed, and asked for by others.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

func electionFlags(o *ElectionOptions) []cli.Flag {
	return []cli.Flag{
		&cli.DurationFlag{Name: "leader-lease-duration", Destination: &o.LeaseDuration, Value: 15 * time.Second, Hidden: true, Usage: "for tests"},
		&cli.DurationFlag{Name: "leader-renew-deadline", Destination: &o.RenewDeadline, Value: 10 * time.Second, Hidden: true, Usage: "for tests"},
		&cli.DurationFlag{Name: "leader-retry-period", Destination: &o.RetryPeriod, Value: 2 * time.Second, Hidden: true, Usage: "for tests"},
	}
}

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
	c, err := newCandidate(client, o.Namespace, o.Election, m, start)
	if err != nil {
		return err
	}
	return c.run(ctx, client, o.Namespace)
}

func newCandidate(client kubernetes.Interface, namespace string, o ElectionOptions, m *metrics.Metrics, start func() error) (*candidate, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("host name: %w", err)
	}
	c := &candidate{identity: host + "_" + string(uuid.NewUUID()), start: start, metrics: m, again: func() {}}
	c.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: watchedLock{
			LeaseLock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Name: leaderLease, Namespace: namespace},
				Client:     client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: c.identity},
			},
			expired: c.expired,
		},
		LeaseDuration:   o.LeaseDuration,
		RenewDeadline:   o.RenewDeadline,
		RetryPeriod:     o.RetryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: c.begin,
			OnStoppedLeading: func() { m.Leading(false) },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return c, nil
}

// watchedLock shows the elector a lease that has expired as one that nobody holds. The
// elector counts from when it last asked and found another record, which is up to 4.4 s
// after the renewal; the watch knows of each renewal at once.
type watchedLock struct {
	*resourcelock.LeaseLock
	expired func(*resourcelock.LeaderElectionRecord) bool
}

// Get implements resourcelock.Interface. Should the lease be renewed after it was read, the
// elector's write, which names the resourceVersion that was read, is refused.
func (l watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if err == nil && l.expired(record) {
		record.HolderIdentity = ""
	}
	return record, raw, err
}

// candidate waits for the lease, and acts while it has it. client-go asks for it every
// two to four seconds, which is how long nobody would act after a leader has ended in
// good order, and longer than the lease lasts after one was killed. So a candidate watches
// the lease, and asks at once when it is given back, and in the moment when it expires.
type candidate struct {
	identity string
	elector  *leaderelection.LeaderElector
	start    func() error
	metrics  *metrics.Metrics

	mu sync.Mutex
	// again ends the wait for the next attempt, by ending the elector's run; before the first
	// there is nothing to end.
	again   context.CancelFunc
	leading bool
	err     error
	// seen is what the watch last showed, and since when; expiry ends the wait when a
	// lease that is not renewed expires.
	seen   *resourcelock.LeaderElectionRecord
	since  time.Time
	expiry *time.Timer
}

func (c *candidate) run(ctx context.Context, client kubernetes.Interface, namespace string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := c.watch(ctx, client, namespace); err != nil {
		return err
	}
	for {
		attempt, end := context.WithCancel(ctx)
		c.mu.Lock()
		c.again = end
		c.mu.Unlock()
		c.elector.Run(attempt)
		end()
		c.mu.Lock()
		leading, err := c.leading, c.err
		c.mu.Unlock()
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return nil
		case leading:
			return errLostLease
		}
	}
}

// watch follows the one Lease. Without the right to do so, or while the watch is
// interrupted, the elector's own timer remains.
func (c *candidate) watch(ctx context.Context, client kubernetes.Interface, namespace string) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, leaderLease).String()
	}))
	look := func(obj any) {
		if lease, ok := obj.(*coordinationv1.Lease); ok {
			c.look(resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec))
		}
	}
	// A Lease that is deleted is none that was given back: its holder goes on until it
	// notices.
	if _, err := factory.Coordination().V1().Leases().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: look, UpdateFunc: func(_, now any) { look(now) },
	}); err != nil {
		return fmt.Errorf("watching the leader lease: %w", err)
	}
	factory.StartWithContext(ctx)
	return nil
}

// look notes a record when it is first seen: as client-go does, a candidate relies on its own
// clock alone. A watch that begins anew shows again what it showed before.
func (c *candidate) look(record *resourcelock.LeaderElectionRecord) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen != nil && equality.Semantic.DeepEqual(c.seen, record) {
		return
	}
	c.seen, c.since = record, time.Now()
	if c.expiry != nil {
		c.expiry.Stop()
	}
	switch record.HolderIdentity {
	case "":
		c.ask("the leader lease was given back")
	case c.identity:
	default:
		c.expiry = time.AfterFunc(lasts(record), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.seen == record {
				c.ask("the leader lease has expired")
			}
		})
	}
}

// ask makes the elector ask now. Should it have asked already, its request may be cut off
// after the API server has taken it: the next one then finds this replica named.
func (c *candidate) ask(why string) {
	if !c.leading {
		logrus.Debug(why)
		c.again()
	}
}

// expired reports another's record that the watch has shown unchanged for as long as it
// was to last.
func (c *candidate) expired(record *resourcelock.LeaderElectionRecord) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return record.HolderIdentity != c.identity && c.seen != nil && equality.Semantic.DeepEqual(c.seen, record) && time.Since(c.since) >= lasts(record)
}

func lasts(record *resourcelock.LeaderElectionRecord) time.Duration {
	return time.Duration(record.LeaseDurationSeconds) * time.Second
}

// begin is called when the lease is held.
func (c *candidate) begin(ctx context.Context) {
	c.mu.Lock()
	if ctx.Err() != nil {
		// Ended in the moment in which it succeeded, the attempt gives the lease back.
		c.mu.Unlock()
		return
	}
	c.leading = true
	c.mu.Unlock()
	c.metrics.Leading(true)
	if err := c.start(); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err = err
		c.again()
		return
	}
	logrus.WithField("identity", c.identity).Info("leading")
}
