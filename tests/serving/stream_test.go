package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/webhooks"
)

// stream is writes without a pause that must be admitted, each by two webhooks.
type stream struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu       sync.Mutex
	passed   int
	refusals []error
}

// begin changes the label of a VM to and fro, from a few clients at once.
func begin(t *testing.T, c *cluster.Cluster) *stream {
	t.Helper()
	ns := c.Namespace(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := &stream{cancel: cancel}
	t.Cleanup(func() { s.end() })
	for n := range 3 {
		name := fmt.Sprintf("vm%d", n)
		c.VM(ns, name).RunStrategy(virtv1.RunStrategyHalted).Submit(t)
		s.ended.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				s.note(ctx, relabel(ctx, c, ns, name, []maintenance.Strategy{maintenance.StrategyShutdown, maintenance.StrategyMigrate}[i%2]))
			}
		})
	}
	return s
}

var errNotMutated = errors.New("stored without having been to the webhook")

func relabel(ctx context.Context, c *cluster.Cluster, ns, name string, strategy maintenance.Strategy) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{maintenance.LabelStrategy: strategy}}})
	if err != nil {
		return err
	}
	vm, err := c.KubeVirt.KubevirtV1().VirtualMachines(ns).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil && vm.Spec.Template.ObjectMeta.Labels[maintenance.LabelStrategy] != string(strategy) {
		return errNotMutated
	}
	return err
}

func (s *stream) note(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.passed++
	case ctx.Err() == nil:
		s.refusals = append(s.refusals, err)
	}
}

func (s *stream) count() (passed int, refusals []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.passed, slices.Clone(s.refusals)
}

// goesOn waits until n more writes have passed.
func (s *stream) goesOn(t *testing.T, c *cluster.Cluster, n int) {
	t.Helper()
	before, _ := s.count()
	c.Eventually(t, fmt.Sprintf("%d more writes pass", n), func(context.Context) error {
		if now, refusals := s.count(); now < before+n {
			return fmt.Errorf("%d passed, refused: %w", now-before, errors.Join(refusals...))
		}
		return nil
	})
}

func (s *stream) end() (passed int, refusals []error) {
	s.cancel()
	s.ended.Wait()
	return s.count()
}

// none ends the stream and demands that nothing was refused.
func (s *stream) none(t *testing.T) {
	t.Helper()
	passed, refusals := s.end()
	if len(refusals) > 0 {
		t.Errorf("of %d writes %d were refused, the first: %v", passed+len(refusals), len(refusals), refusals[0])
	}
	t.Logf("%d writes were admitted", passed)
}

// lag is how late the dialler knows of a change of the configuration: shorter than the
// settling time, and longer than any API server's copy is late.
const lag = time.Second

// dial makes new connections to every manager all the time, as an API server does that
// has just started or whose connection broke, and trusts the bundle that the
// configuration had a while ago. The API server's own connections outlive certificates.
func dial(t *testing.T, c *cluster.Cluster, managers ...*manager.Manager) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &stream{cancel: cancel}
	t.Cleanup(func() { s.end() })
	var addresses []string
	for _, m := range managers {
		address, err := m.Address("webhook")
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, address)
	}
	s.ended.Go(func() {
		type known struct {
			bundle []byte
			at     time.Time
		}
		var history []known
		for ctx.Err() == nil {
			configuration, err := c.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, webhooks.Name, metav1.GetOptions{})
			if err != nil {
				s.note(ctx, err)
				continue
			}
			history = append(history, known{configuration.Webhooks[0].ClientConfig.CABundle, time.Now()})
			for len(history) > 1 && time.Since(history[1].at) > lag {
				history = history[1:]
			}
			for _, address := range addresses {
				s.note(ctx, handshake(ctx, address, history[0].bundle))
			}
		}
	})
	return s
}

func handshake(ctx context.Context, address string, bundle []byte) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: "drydock-webhook." + namespace + ".svc"}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}
