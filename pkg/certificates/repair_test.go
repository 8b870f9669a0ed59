package certificates

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

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
