package certificates

import (
	"crypto/x509"
	"slices"
	"strings"
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

func TestAFirstReplicaMakesWhatIsNeeded(t *testing.T) {
	c := newCell(t)
	c.settle()
	if err := c.trusts(); err != nil {
		t.Error(err)
	}
	if len(c.cas()) != 1 {
		t.Errorf("the bundle has %q", c.cas())
	}
	if want := epoch.Add(60 * 24 * time.Hour); c.wake.Before(want.Add(-time.Hour)) || c.wake.After(want) {
		t.Errorf("the next look is at %s, want about %s", c.wake, want)
	}
}

func TestTheServingCertificateIsReplacedOnRequest(t *testing.T) {
	c := newCell(t)
	c.settle()
	before, cas := c.serial(), c.cas()
	c.ask(maintenance.RotateServing)
	c.settle()
	if c.serial() == before || len(c.cas()) != 1 || c.cas()[0] != cas[0] || len(c.secret.Annotations) != 0 {
		t.Errorf("serial %s after %s, CAs %q after %q, annotations %v", c.serial(), before, c.cas(), cas, c.secret.Annotations)
	}
	if err := c.trusts(); err != nil {
		t.Error(err)
	}
}

// A CA is introduced, published, settled, promoted and the one before it retired; at no
// step is the replica's certificate unknown to who trusts the configuration, nor to who
// trusts the one of a step before.
func TestTheCAIsReplacedStepByStep(t *testing.T) {
	c := newCell(t)
	c.settle()
	first := c.cas()[0]
	c.now = c.rules.renewalOfSigner(c)
	c.frozen = true
	c.pass()
	second := c.cas()[1]
	serial := c.serial()
	for range 3 {
		c.now = c.now.Add(time.Hour)
		if c.pass() {
			t.Fatalf("something is written while a configuration does not carry the next CA: %q", c.done)
		}
	}
	c.frozen = false
	c.pass() // injects
	if !c.pass() || c.secret.Annotations[maintenance.AnnotationCAPublished] == "" {
		t.Fatalf("that every configuration carries the next CA is not noted: %q", c.done)
	}
	if want := c.now.Add(c.rules.lifetimes.Settle); !c.wake.Equal(want) {
		t.Errorf("the next look is at %s, want %s", c.wake, want)
	}
	c.now = c.wake.Add(-time.Second)
	if c.pass() || c.serial() != serial {
		t.Fatal("the next CA signs before it has settled")
	}
	lagging := c.bundle
	c.now = c.now.Add(time.Second)
	if !c.pass() || c.serial() == serial {
		t.Fatal("the next CA does not sign although it has settled")
	}
	for what, bundle := range map[string][]byte{"old": lagging, "new": c.bundle} {
		c.bundle = bundle
		if err := c.trusts(); err != nil {
			t.Errorf("with the %s bundle: %v", what, err)
		}
	}
	if got := c.cas(); len(got) != 2 || got[0] != second || got[1] != first {
		t.Errorf("the bundle has %q, want %q and %q", got, second, first)
	}
	c.settle()
	if want := c.now.Add(c.rules.lifetimes.Retire); !c.wake.Equal(want) {
		t.Errorf("the next look is at %s, want %s", c.wake, want)
	}
	c.now = c.wake
	c.settle()
	if got := c.cas(); len(got) != 1 || got[0] != second {
		t.Errorf("the bundle has %q, want %q alone", got, second)
	}
	if err := c.trusts(); err != nil {
		t.Error(err)
	}
}

func (r *rules) renewalOfSigner(c *cell) time.Time {
	s, _ := read(c.secret, c.now)
	return renewal(s.signer.cert)
}

func TestAConfigurationThatLosesTheNextCAIsWaitedForAgain(t *testing.T) {
	c := newCell(t)
	c.settle()
	c.ask(maintenance.RotateCA)
	c.settle()
	c.frozen, c.bundle = true, nil // made anew by somebody
	serial := c.serial()
	c.pass()
	c.now = c.now.Add(time.Hour)
	if c.pass(); c.serial() != serial {
		t.Fatal("the next CA signs although no configuration knows it any more")
	}
	c.frozen = false
	c.settle()
	if c.serial() != serial {
		t.Fatal("the next CA signs before it has settled again")
	}
	c.now = c.wake
	if c.settle(); c.serial() == serial {
		t.Fatal("the next CA never signs")
	}
}

func TestWithoutConfigurationsTheCAIsReplacedAllTheSame(t *testing.T) {
	c := newCell(t)
	c.absent = true
	c.settle()
	before := c.cas()[0]
	c.ask(maintenance.RotateCA)
	c.settle()
	c.now = c.wake
	c.settle()
	if got := c.cas(); len(got) != 2 || got[1] != before {
		t.Errorf("the bundle has %q", got)
	}
}

func TestAWrongOrderIsNamedAndRemoved(t *testing.T) {
	c := newCell(t)
	c.settle()
	serial := c.serial()
	c.ask("everything")
	c.pass()
	if c.serial() != serial || len(c.secret.Annotations) != 0 {
		t.Errorf("serial %s after %s, annotations %v", c.serial(), serial, c.secret.Annotations)
	}
	if want := `annotation drydock.dev/rotate: "everything" is neither "serving" nor "ca", and is removed`; len(c.done) != 1 || c.done[0] != want {
		t.Errorf("said %q, want %q", c.done, want)
	}
}

// The smoother the repair, the more is left.
func TestDamageIsRepaired(t *testing.T) {
	expired := func(c *cell, ca bool) (certPEM, keyPEM []byte) {
		p, err := newCA(c.now.Add(-2*time.Hour), time.Hour)
		if err == nil && !ca {
			p, err = newServing(c.now.Add(-2*time.Hour), 90*time.Minute, hosts, p)
			p.cert.NotAfter = c.now
		}
		if err != nil {
			c.t.Fatal(err)
		}
		return p.certPEM, p.keyPEM
	}
	foreign := func(c *cell) *cell {
		other := newCell(c.t)
		other.now = c.now.Add(-time.Hour)
		other.settle()
		return other
	}
	for name, test := range map[string]struct {
		damage func(c *cell, data map[string][]byte)
		// forgets: the replica is a new one.
		forgets bool
		// want: kept (nothing but what was damaged is new), smooth (the CA is replaced
		// with an overlap) or anew.
		want, says string
	}{
		"the Secret is deleted":                       {damage: func(c *cell, _ map[string][]byte) { c.secret = nil }, want: "smooth", says: "the Secret does not exist"},
		"the Secret is deleted while no replica runs": {damage: func(c *cell, _ map[string][]byte) { c.secret = nil }, forgets: true, want: "anew"},
		"all is emptied":                              {damage: func(c *cell, _ map[string][]byte) { c.secret.Data = nil }, want: "smooth", says: "serving certificate (tls.crt, tls.key): missing"},
		"all is garbage":                              {damage: fill([]byte("\x00\xffgarbage")), want: "smooth"},
		"all is garbage and no replica runs":          {damage: fill([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")), forgets: true, want: "anew"},
		"the serving key is missing":                  {damage: without(keyServingKey), forgets: true, want: "kept", says: "serving certificate (tls.crt, tls.key): a certificate without its key"},
		"the serving certificate is missing":          {damage: without(keyServingCert), forgets: true, want: "kept", says: "a key without its certificate"},
		"the serving key is another's":                {damage: func(c *cell, data map[string][]byte) { data[keyServingKey] = data[keySignerKey] }, forgets: true, want: "kept", says: "private key does not match public key"},
		"the serving certificate is cut short":        {damage: func(_ *cell, data map[string][]byte) { data[keyServingCert] = data[keyServingCert][:100] }, forgets: true, want: "kept"},
		"the serving certificate has expired":         {damage: func(c *cell, data map[string][]byte) { data[keyServingCert], data[keyServingKey] = expired(c, false) }, forgets: true, want: "kept", says: "expired at"},
		"the serving certificate is another CA's": {damage: func(c *cell, data map[string][]byte) {
			o := foreign(c).secret.Data
			data[keyServingCert], data[keyServingKey] = o[keyServingCert], o[keyServingKey]
		}, forgets: true, want: "kept"},
		"the CA's key is missing": {damage: without(keySignerKey), forgets: true, want: "smooth", says: "CA (signer.crt, signer.key): a certificate without its key"},
		"the CA is missing":       {damage: without(keySignerKey, keySignerCert), forgets: true, want: "smooth"},
		"the CA has expired":      {damage: func(c *cell, data map[string][]byte) { data[keySignerCert], data[keySignerKey] = expired(c, true) }, forgets: true, want: "smooth", says: "CA (signer.crt, signer.key): expired at"},
		"the CA is a serving certificate": {damage: func(_ *cell, data map[string][]byte) {
			data[keySignerCert], data[keySignerKey] = data[keyServingCert], data[keyServingKey]
		}, forgets: true, want: "smooth", says: "is not a self-signed CA"},
		"CA and serving key are missing":                     {damage: without(keySignerKey, keySignerCert, keyServingKey), want: "smooth"},
		"CA and serving key are missing and no replica runs": {damage: without(keySignerKey, keySignerCert, keyServingKey), forgets: true, want: "anew"},
		"the bundle is missing":                              {damage: without(keyBundle), forgets: true, want: "kept", says: "CA bundle (ca.crt)"},
		"the bundle is garbage":                              {damage: func(_ *cell, data map[string][]byte) { data[keyBundle] = []byte("x") }, forgets: true, want: "kept"},
		"bundle and CA are missing":                          {damage: without(keyBundle, keySignerCert, keySignerKey), want: "smooth"},
		"the next CA is half there":                          {damage: func(_ *cell, data map[string][]byte) { data[keyNextCert] = []byte("x") }, forgets: true, want: "kept", says: "next CA (next.crt, next.key): a certificate without its key"},
		"it was cert-manager's: certificate, key and bundle": {damage: without(keySignerKey, keySignerCert), forgets: true, want: "smooth"},
		"the moments are nonsense": {damage: func(c *cell, _ map[string][]byte) {
			c.secret.Annotations = map[string]string{maintenance.AnnotationCAPublished: "x", maintenance.AnnotationCAPromoted: "y"}
		}, forgets: true, want: "kept"},
		"somebody else's data and annotations are in the Secret": {damage: func(c *cell, data map[string][]byte) {
			data["x"] = []byte("y")
			c.secret.Annotations = map[string]string{"a": "b"}
		}, forgets: true, want: "kept"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCell(t)
			c.settle()
			c.now = c.now.Add(24 * time.Hour)
			c.settle()
			before := c.cas()[0]
			c.secret = c.secret.DeepCopy()
			test.damage(c, c.secret.Data)
			if test.forgets {
				c.memory = known{}
			}
			lagging := c.bundle
			c.pass()
			if said := slices.Concat(c.complaints, c.done); test.says != "" && !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, test.says) }) {
				t.Errorf("said %q, want %q", said, test.says)
			}
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(lagging)
			_, err := c.memory.serving.cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: c.now, DNSName: hosts[0]})
			if refused := err != nil; refused != (test.want == "anew") {
				t.Errorf("who trusts the bundle from before says %v", err)
			}
			c.settle()
			if err := c.trusts(); err != nil {
				t.Error(err)
			}
			c.now = c.wake
			for range 3 {
				c.settle()
				c.now = c.now.Add(c.rules.lifetimes.Retire)
			}
			if kept := c.cas()[0] == before; kept != (test.want == "kept") || len(c.cas()) != 1 {
				t.Errorf("in the end the bundle has %q; it was %q", c.cas(), before)
			}
			if name == "somebody else's data and annotations are in the Secret" && (string(c.secret.Data["x"]) != "y" || c.secret.Annotations["a"] != "b") {
				t.Errorf("they are gone: %v", c.secret)
			}
		})
	}
}

func without(keys ...string) func(*cell, map[string][]byte) {
	return func(_ *cell, data map[string][]byte) {
		for _, key := range keys {
			delete(data, key)
		}
	}
}

func fill(content []byte) func(*cell, map[string][]byte) {
	return func(_ *cell, data map[string][]byte) {
		for key := range data {
			data[key] = content
		}
	}
}

// While two versions run, each asks for names of its own.
func TestTwoVersionsDoNotReplaceEachOthersCertificate(t *testing.T) {
	c := newCell(t)
	c.settle()
	other := &rules{lifetimes: c.rules.lifetimes, hosts: []string{"renamed.harvester-system.svc"}}
	mine := c.rules
	writes := 0
	for range 5 {
		for _, c.rules = range []*rules{other, mine} {
			if c.pass() {
				writes++
			}
		}
	}
	if writes != 1 || !covers(c.memory.serving.cert, append(mine.hosts, other.hosts...)) {
		t.Errorf("%d writes, and a certificate for %q", writes, hostsOf(c.memory.serving.cert))
	}
}

// A replica that nobody looks after for years must neither spin nor stop.
func TestYears(t *testing.T) {
	c := newCell(t)
	serials, cas := map[string]bool{}, map[string]bool{}
	passes := 0
	for end := epoch.AddDate(30, 0, 0); c.now.Before(end); passes++ {
		c.pass()
		if err := c.trusts(); err != nil {
			t.Fatalf("%s: %v", c.now, err)
		}
		serials[c.serial()], cas[c.cas()[0]] = true, true
		if c.bundle == nil || !c.pass() {
			c.now = c.wake
		}
	}
	if len(serials) < 170 || len(serials) > 200 || len(cas) != 5 || passes > 3*len(serials) {
		t.Errorf("%d certificates and %d CAs in 30 years, with %d passes", len(serials), len(cas), passes)
	}
}
