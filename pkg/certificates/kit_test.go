package certificates

import (
	"crypto/x509"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

var (
	epoch = time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	hosts = []string{"drydock-webhook.harvester-system.svc", "localhost", "127.0.0.1"}
)

func newRules() *rules { return &rules{lifetimes: defaultLifetimes(), hosts: hosts} }

// cell is one replica with a Secret and one webhook configuration, which it keeps as the
// Keeper would.
type cell struct {
	t      *testing.T
	rules  *rules
	now    time.Time
	secret *corev1.Secret
	memory known
	bundle []byte // of the configuration; "absent" for none
	absent bool
	frozen bool // the configuration cannot be patched
	wake   time.Time
	// complaints and done are those of the last pass.
	complaints, done []string
}

func newCell(t *testing.T) *cell { return &cell{t: t, rules: newRules(), now: epoch} }

func (c *cell) configurations() []configuration {
	if c.absent {
		return nil
	}
	return []configuration{{bundles: [][]byte{c.bundle}}}
}

// pass returns whether it wrote the Secret.
func (c *cell) pass() bool {
	c.t.Helper()
	d, err := c.rules.decide(c.now, "ns", "tls", c.secret, c.configurations(), c.memory)
	if err != nil {
		c.t.Fatal(err)
	}
	if d.secret != nil {
		c.secret = d.secret
	}
	c.memory, c.wake, c.complaints, c.done = known{serving: d.serving, bundle: d.bundle}, d.wake, d.complaints, d.done
	if !c.frozen {
		c.bundle = c.secret.Data[keyBundle]
	}
	return d.secret != nil
}

// settle passes until nothing is written any more.
func (c *cell) settle() {
	c.t.Helper()
	for range 10 {
		if !c.pass() {
			return
		}
	}
	c.t.Fatal("the Secret is written again and again")
}

// trusts says whether a client that verifies with the configuration's bundle accepts what
// the replica presents.
func (c *cell) trusts() error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.bundle)
	_, err := c.memory.serving.cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: c.now, DNSName: hosts[0]})
	return err
}

func (c *cell) cas() []string {
	all, err := cert.ParseCertsPEM(c.secret.Data[keyBundle])
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, ca := range all {
		names = append(names, ca.Subject.CommonName)
	}
	return names
}

func (c *cell) serial() string { return c.memory.serving.cert.SerialNumber.String() }

func (c *cell) ask(what string) {
	c.secret = c.secret.DeepCopy()
	c.secret.Annotations = map[string]string{maintenance.AnnotationRotate: what}
}
