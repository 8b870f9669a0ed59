package certificates

import (
	"crypto/x509"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// world is several replicas, which see the Secret and the webhook configuration late and
// apart, and an API server whose own copy of the configuration lags behind too.
type world struct {
	now      time.Time
	secret   *corev1.Secret
	version  int
	bundles  []bundleAt // every state of the configuration
	replicas []*replica
	rules    rules
}

type bundleAt struct {
	bundle []byte
	since  time.Time
}

type replica struct {
	secret *corev1.Secret
	config int // the state of the configuration that it sees
	memory known
}

func (w *world) put(secret *corev1.Secret) {
	w.version++
	if secret != nil {
		secret = secret.DeepCopy()
		secret.ResourceVersion = strconv.Itoa(w.version)
	}
	w.secret = secret
}

func versionOf(secret *corev1.Secret) string {
	if secret == nil {
		return ""
	}
	return secret.ResourceVersion
}

// pass is Keeper.pass: writes count only when nobody was faster.
func (w *world) pass(t *rapid.T, r *replica) {
	d, err := w.rules.decide(w.now, "ns", "tls", r.secret, []configuration{{bundles: [][]byte{w.bundles[r.config].bundle}}}, r.memory)
	if err != nil {
		t.Fatal(err)
	}
	if d.secret != nil {
		if versionOf(w.secret) != versionOf(r.secret) {
			return
		}
		w.put(d.secret)
		r.secret = w.secret
	}
	r.memory = known{serving: d.serving, bundle: d.bundle}
	bundle := r.secret.Data[keyBundle]
	if string(w.bundles[r.config].bundle) == string(bundle) || r.config != len(w.bundles)-1 || versionOf(w.secret) != versionOf(r.secret) {
		return
	}
	w.bundles = append(w.bundles, bundleAt{bundle, w.now})
	r.config = len(w.bundles) - 1
}

// lagMost is how late anybody learns of anything. Settle is longer.
const lagMost = 40 * time.Second

// accepted says whether API servers, whichever state of the configuration they still
// have, accept what the replicas present.
func (w *world) accepted(t *rapid.T) {
	for i, at := range w.bundles {
		if last := i == len(w.bundles)-1; !last && w.now.Sub(w.bundles[i+1].since) > lagMost {
			continue
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(at.bundle)
		for n, r := range w.replicas {
			if r.memory.serving == nil {
				continue
			}
			if _, err := r.memory.serving.cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: w.now, DNSName: hosts[0]}); err != nil {
				t.Fatalf("replica %d is refused by who has state %d of %d: %v", n, i, len(w.bundles)-1, err)
			}
		}
	}
}

func TestStoriesOfSeveralReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{now: epoch, rules: rules{lifetimes: defaultLifetimes(), hosts: hosts}}
		// Before there is anything, nobody is served; the story begins when there is.
		first := &replica{}
		w.bundles = []bundleAt{{nil, epoch}}
		w.pass(t, first)
		w.bundles = w.bundles[len(w.bundles)-1:]
		first.config = 0
		w.replicas = []*replica{first, {}, {}}
		sync := func(r *replica) { r.secret, r.config = w.secret, len(w.bundles)-1 }
		any := rapid.SampledFrom(w.replicas)
		damaged := false
		t.Repeat(map[string]func(*rapid.T){
			"a replica sees the Secret":        func(t *rapid.T) { any.Draw(t, "replica").secret = w.secret },
			"a replica sees the configuration": func(t *rapid.T) { any.Draw(t, "replica").config = len(w.bundles) - 1 },
			"a replica works":                  func(t *rapid.T) { w.pass(t, any.Draw(t, "replica")) },
			"all see and work": func(t *rapid.T) {
				for range 4 {
					for _, r := range w.replicas {
						sync(r)
						w.pass(t, r)
					}
				}
				damaged = false
			},
			"time passes": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second)
				// Nobody lags further than that.
				for _, r := range w.replicas {
					sync(r)
					w.pass(t, r)
				}
			},
			"a long time passes": func(t *rapid.T) {
				if damaged {
					t.Skip("it is repaired before")
				}
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "days")) * 24 * time.Hour)
				for range 6 {
					for _, r := range w.replicas {
						sync(r)
						w.pass(t, r)
					}
					w.accepted(t)
					w.now = w.now.Add(lagMost)
				}
			},
			"somebody asks for a rotation": func(t *rapid.T) {
				if w.secret == nil {
					t.Skip("there is no Secret")
				}
				secret := w.secret.DeepCopy()
				annotate(secret, maintenance.AnnotationRotate, rapid.SampledFrom([]string{maintenance.RotateCA, maintenance.RotateServing}).Draw(t, "what"))
				w.put(secret)
			},
			"somebody deletes the Secret": func(t *rapid.T) {
				// All replicas remember what they serve; with none that does, nothing can help.
				if slices.ContainsFunc(w.replicas, func(r *replica) bool { return r.memory.serving == nil }) {
					t.Skip("a replica has only just started")
				}
				w.put(nil)
				damaged = true
			},
			"": w.accepted,
		})
	})
}
