package certificates

import (
	"testing"
	"time"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

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
