package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/webhook"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/webhooks"
)

const (
	rate     = 500 // reviews a second, far more than a cluster sends
	measured = 10 * time.Second
	warmUp   = 20_000
	lasting  = 100_000
)

// BenchmarkAdmission posts real reviews over TLS, as the API server does, beside a dev
// cluster that takes its share of the machine: how long they take at a steady rate, and
// what memory many of them leave behind. Run it with -benchtime=1x; it has no pass
// criterion.
func BenchmarkAdmission(b *testing.B) {
	c := admitted(b)
	p := newPoster(b, c)
	for range b.N {
		p.flood(b, warmUp)
		before := resident(b, replica(b, c))
		p.flood(b, lasting)
		after := resident(b, replica(b, c))
		times := p.steadily(b)
		slices.Sort(times)
		b.ReportMetric(milliseconds(times[len(times)/2]), "p50-ms")
		b.ReportMetric(milliseconds(times[len(times)*99/100]), "p99-ms")
		b.ReportMetric(float64(after)/(1<<20), "RSS-MiB")
		b.ReportMetric(float64(after-before)/(1<<20), "RSS-growth-MiB")
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// poster posts reviews, one kind after the other.
type poster struct {
	client *http.Client
	base   string
	paths  []string
	bodies [][]byte
}

func newPoster(b *testing.B, c *cluster.Cluster) *poster {
	b.Helper()
	configuration, err := c.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(b.Context(), webhooks.Name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(configuration.Webhooks[0].ClientConfig.CABundle)
	service := configuration.Webhooks[0].ClientConfig.Service
	address, err := replica(b, c).Address("webhook")
	if err != nil {
		b.Fatal(err)
	}
	p := &poster{base: "https://" + address, client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: service.Name + "." + service.Namespace + ".svc", MinVersion: tls.VersionTLS12},
	}}}
	nodes, err := c.Kube.CoreV1().Nodes().List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	node := &nodes.Items[0]
	cordoned := node.DeepCopy()
	cordoned.Spec.Unschedulable = true
	vm := c.VM("ns", "a").Object()
	labelled := c.VM("ns", "a").Strategy("Shutdown").Object()
	launcher := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"vm.kubevirt.io/name": "a"}}}
	p.add(b, webhook.PathMutateVirtualMachines, nil, vm)
	p.add(b, webhook.PathValidateVirtualMachines, vm, labelled)
	p.add(b, webhook.PathMutateLaunchers, nil, launcher)
	p.add(b, webhook.PathMutateNodes, node, cordoned)
	p.add(b, webhook.PathValidateNodes, node, cordoned)
	return p
}

func (p *poster) add(b *testing.B, path string, old, now any) {
	b.Helper()
	encode := func(object any) []byte {
		raw, err := json.Marshal(object)
		if err != nil {
			b.Fatal(err)
		}
		return raw
	}
	review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "bench", Namespace: "ns", Name: "a", Operation: admissionv1.Create}}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	review.Request.Object.Raw = encode(now)
	if old != nil {
		review.Request.Operation, review.Request.OldObject.Raw = admissionv1.Update, encode(old)
	}
	p.paths, p.bodies = append(p.paths, path), append(p.bodies, encode(review))
}

// post posts the n-th review.
func (p *poster) post(ctx context.Context, n int) error {
	n %= len(p.paths)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+p.paths[n]+"?timeout=5s", bytes.NewReader(p.bodies[n]))
	if err != nil {
		return fmt.Errorf("review: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := p.client.Do(request)
	if err != nil {
		return fmt.Errorf("review: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // only read from
	body, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"allowed":true`))) {
		err = fmt.Errorf("%s is answered %d: %s", p.paths[n], response.StatusCode, body)
	}
	return err
}

// flood posts reviews as fast as eight callers can.
func (p *poster) flood(b *testing.B, count int) {
	b.Helper()
	next := make(chan int)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for n := range next {
				if err := p.post(b.Context(), n); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for n := range count {
		next <- n
	}
	close(next)
	wait.Wait()
}

// steadily posts reviews at the rate, whether or not earlier ones are answered, and
// returns how long each took from the moment it was due.
func (p *poster) steadily(b *testing.B) []time.Duration {
	b.Helper()
	times := make([]time.Duration, int(measured.Seconds())*rate)
	began := time.Now()
	var wait sync.WaitGroup
	for n := range times {
		due := began.Add(time.Duration(n) * time.Second / rate)
		time.Sleep(time.Until(due))
		wait.Go(func() {
			if err := p.post(b.Context(), n); err != nil {
				b.Error(err)
			}
			times[n] = time.Since(due)
		})
	}
	wait.Wait()
	return times
}

// resident is the manager's memory in bytes.
func resident(b *testing.B, m *manager.Manager) int64 {
	b.Helper()
	u, err := m.Usage()
	if err != nil {
		b.Fatal(err)
	}
	return u.Resident
}
