package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/drydock-dev/drydock/pkg/metrics"
)

var shipped = ElectionOptions{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}

// another is a leader of which only its lease is seen.
type another struct {
	t      *testing.T
	client *fake.Clientset
	lease  *coordinationv1.Lease
}

func newAnother(t *testing.T) *another {
	t.Helper()
	a := &another{t: t, client: fake.NewClientset(), lease: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: leaderLease}}}
	a.lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To("another"), LeaseDurationSeconds: ptr.To(int32(15)), RenewTime: ptr.To(metav1.NowMicro())}
	if _, err := a.client.CoordinationV1().Leases("ns").Create(t.Context(), a.lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return a
}

// renew renews the lease, or gives it back.
func (a *another) renew(holder string) {
	a.t.Helper()
	a.lease.Spec.HolderIdentity, a.lease.Spec.RenewTime = &holder, ptr.To(metav1.NowMicro())
	if _, err := a.client.CoordinationV1().Leases("ns").Update(a.t.Context(), a.lease, metav1.UpdateOptions{}); err != nil {
		a.t.Fatal(err)
	}
}

// wait runs a candidate, and returns when it led, and how to end it.
func (a *another) wait() (led <-chan time.Time, end func()) {
	a.t.Helper()
	begun := make(chan time.Time, 1)
	c, err := newCandidate(a.client, "ns", shipped, metrics.New("v", clock.RealClock{}), func() error {
		begun <- time.Now()
		return nil
	})
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(a.t.Context())
	ended := make(chan error)
	go func() { ended <- c.run(ctx, a.client, "ns") }()
	return begun, func() {
		cancel()
		if err := <-ended; err != nil {
			a.t.Error(err)
		}
	}
}

// A leader that is killed is missed until its lease expires and no longer, wherever its
// last renewal fell between the elector's own attempts.
func TestACandidateAsksInTheMomentWhenTheLeaseExpires(t *testing.T) {
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			a := newAnother(t)
			led, end := a.wait()
			for range 5 {
				time.Sleep(2 * time.Second)
				a.renew("another")
			}
			renewed := time.Now()
			if missed := (<-led).Sub(renewed); missed != 15*time.Second {
				t.Errorf("it led %s after the last renewal", missed)
			}
			end()
			synctest.Wait()
		})
	}
}

// A lease that goes on being renewed is never taken, and one that is given back at once.
func TestACandidateAsksInTheMomentWhenTheLeaseIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnother(t)
		led, end := a.wait()
		for range 50 {
			time.Sleep(10 * time.Second)
			a.renew("another")
		}
		select {
		case <-led:
			t.Error("it led beside another")
		default:
		}
		time.Sleep(time.Second)
		a.renew("")
		returned := time.Now()
		if missed := (<-led).Sub(returned); missed != 0 {
			t.Errorf("it led %s after the lease was given back", missed)
		}
		end()
		synctest.Wait()
	})
}
