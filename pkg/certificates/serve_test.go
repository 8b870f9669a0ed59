package certificates

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/utils/clock"
)

// The API server calls a webhook only when the bundle that it was given has the CA of the
// certificate that is presented.
func TestABundleTrustsWhatItsCAsHaveSigned(t *testing.T) {
	now := time.Now()
	log := logrus.New()
	log.SetOutput(io.Discard)
	k := New(nil, Options{Clock: clock.RealClock{}, Log: log})
	changes := 0
	k.OnServed(func() { changes++ })
	var cas, servings []*pair
	for range 2 {
		ca, err := newCA(now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		serving, err := newServing(now, time.Hour, []string{"drydock.test"}, ca)
		if err != nil {
			t.Fatal(err)
		}
		cas, servings = append(cas, ca), append(servings, serving)
	}
	if k.TrustedBy(cas[0].certPEM) {
		t.Error("a certificate is trusted before there is one")
	}
	for n, serving := range servings {
		if err := k.serve(serving); err != nil {
			t.Fatal(err)
		}
		own, other := cas[n].certPEM, cas[1-n].certPEM
		for name, test := range map[string]struct {
			bundle []byte
			want   bool
		}{
			"its own CA": {own, true}, "another": {other, false}, "both": {bytes.Join([][]byte{other, own}, nil), true},
			"the certificate itself": {serving.certPEM, true}, "none": {nil, false}, "nonsense": {[]byte("nonsense"), false},
		} {
			if got := k.TrustedBy(test.bundle); got != test.want {
				t.Errorf("certificate %d, %s: trusted: %t, want %t", n, name, got, test.want)
			}
		}
	}
	if changes != len(servings) {
		t.Errorf("it was told %d times that another certificate is presented", changes)
	}
}
