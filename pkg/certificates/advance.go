package certificates

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// rules decide what the Secret should hold.
type rules struct {
	lifetimes Lifetimes
	// hosts are the names and addresses that the serving certificate must be valid for.
	hosts []string
}

// known is what a replica remembers of the last certificate that it served: the
// certificate and the CAs that clients have been told to trust.
type known struct {
	serving *pair
	bundle  []*x509.Certificate
}

// advance takes every step that is due, and says in a sentence each what it did. carried
// says whether all webhook configurations that exist trust a CA.
func (r *rules) advance(now time.Time, s state, memory known, carried func(*x509.Certificate) bool) (state, []string, error) {
	s.trusted = slices.Clone(s.trusted)
	var done []string
	rotateServing, rotateCA := false, false
	switch s.order {
	case "":
	case maintenance.RotateServing:
		rotateServing = true
	case maintenance.RotateCA:
		rotateCA = true
	default:
		done = append(done, fmt.Sprintf("annotation %s: %q is neither %q nor %q, and is removed", maintenance.AnnotationRotate, s.order, maintenance.RotateServing, maintenance.RotateCA))
	}
	s.order = ""

	sentences, err := r.ensureServing(now, &s, memory, rotateServing)
	if err != nil {
		return s, done, err
	}
	done = append(done, sentences...)
	if s.next == nil {
		reason := ""
		switch {
		case s.signer == nil:
			reason = "the present one cannot sign"
		case rotateCA:
			reason = "it was asked for"
		case !now.Before(renewal(s.signer.cert)):
			reason = "the present one ends at " + s.signer.cert.NotAfter.Format(time.RFC3339)
		}
		if reason != "" {
			if s.next, err = newCA(now, r.lifetimes.CA); err != nil {
				return s, done, err
			}
			s.published = time.Time{}
			done = append(done, "a new CA is introduced, since "+reason)
		}
	}
	sentences, err = r.promote(now, &s, carried)
	if err != nil {
		return s, done, err
	}
	return s, append(append(done, sentences...), r.retire(now, &s)...), nil
}

// ensureServing sees to it that there is a usable serving certificate, whatever else is
// missing, and renews it in time.
func (r *rules) ensureServing(now time.Time, s *state, memory known, ordered bool) (done []string, err error) {
	reason := r.unfit(s.serving, s.bundle())
	if reason == "" {
		switch {
		case s.signer == nil: // The next CA is on its way, and brings a new certificate.
			return nil, nil
		case ordered:
			reason = "it was asked for"
		// With a CA that ends as early a new one would be no better.
		case !now.Before(renewal(s.serving.cert)) && s.signer.cert.NotAfter.After(s.serving.cert.NotAfter):
			reason = "it ends at " + s.serving.cert.NotAfter.Format(time.RFC3339)
		default:
			return nil, nil
		}
	}
	if s.signer == nil && memory.serving != nil && now.Before(memory.serving.cert.NotAfter) && r.unfit(memory.serving, memory.bundle) == "" {
		s.serving = memory.serving
		known := s.bundle()
		for _, ca := range memory.bundle {
			if now.Before(ca.NotAfter) && !contains(known, ca) {
				s.trusted = append(s.trusted, ca)
			}
		}
		return []string{"the serving certificate is restored from this replica's memory, since " + reason}, nil
	}
	if s.signer == nil {
		// Nobody can trust what is presented now; the sooner everybody can, the better.
		s.signer, s.next, s.published, s.promoted = s.next, nil, time.Time{}, now
		if s.signer == nil {
			if s.signer, err = newCA(now, r.lifetimes.CA); err != nil {
				return nil, err
			}
		}
		done = append(done, "a CA signs that webhook configurations may not know yet, since there is no other")
	}
	if s.serving, err = newServing(now, r.lifetimes.Serving, r.names(s.serving), s.signer); err != nil {
		return done, err
	}
	return append(done, "a serving certificate is signed, since "+reason), nil
}

// unfit says why a serving certificate cannot be presented, "" when it can.
func (r *rules) unfit(p *pair, bundle []*x509.Certificate) string {
	switch {
	case p == nil:
		return "there is none that can be used"
	case !covers(p.cert, r.hosts):
		return fmt.Sprintf("the present one is for %q and not for all of %q", hostsOf(p.cert), r.hosts)
	case !slices.ContainsFunc(bundle, func(ca *x509.Certificate) bool { return issuedBy(p.cert, ca) }):
		return "no CA of the bundle has signed the present one"
	}
	return ""
}

// names are those of the next serving certificate. While replicas of two versions run,
// each may want others: those of a certificate that does not have all are kept, or the
// two would replace each other's for ever.
func (r *rules) names(old *pair) []string {
	names := slices.Clone(r.hosts)
	if old == nil || covers(old.cert, r.hosts) {
		return names
	}
	for _, host := range hostsOf(old.cert) {
		if !slices.Contains(names, host) {
			names = append(names, host)
		}
	}
	return names
}

func hostsOf(c *x509.Certificate) []string {
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

// promote follows the next CA into the webhook configurations, and makes it the one that
// signs once it has settled there.
func (r *rules) promote(now time.Time, s *state, carried func(*x509.Certificate) bool) (done []string, err error) {
	if s.next == nil {
		s.published = time.Time{}
		return nil, nil
	}
	if !carried(s.next.cert) {
		if !s.published.IsZero() {
			done = append(done, "the next CA waits again: a webhook configuration does not carry it any more")
		}
		s.published = time.Time{}
		return done, nil
	}
	if s.published.IsZero() || s.published.After(now) {
		s.published = now
		return []string{"every webhook configuration carries the next CA"}, nil
	}
	if now.Before(s.published.Add(r.lifetimes.Settle)) {
		return nil, nil
	}
	if s.signer != nil {
		s.trusted = append(s.trusted, s.signer.cert)
	}
	s.signer, s.next, s.published, s.promoted = s.next, nil, time.Time{}, now
	if s.serving, err = newServing(now, r.lifetimes.Serving, r.hosts, s.signer); err != nil {
		return nil, err
	}
	return []string{"the next CA signs from now on, and has signed a new serving certificate"}, nil
}

// retire drops the CAs that no replica needs any more.
func (r *rules) retire(now time.Time, s *state) (done []string) {
	if len(s.trusted) > 0 && (s.promoted.IsZero() || s.promoted.After(now)) {
		s.promoted = now
	}
	s.trusted = slices.DeleteFunc(s.trusted, func(ca *x509.Certificate) bool {
		needed := issuedBy(s.serving.cert, ca) || now.Before(s.promoted.Add(r.lifetimes.Retire))
		if needed && now.Before(ca.NotAfter) {
			return false
		}
		done = append(done, fmt.Sprintf("the CA %q is not trusted any more", ca.Subject.CommonName))
		return true
	})
	if len(s.trusted) == 0 {
		s.promoted = time.Time{}
	}
	return done
}

// wake is when the next step is due, if nothing changes before.
func (r *rules) wake(now time.Time, s state) time.Time {
	var next time.Time
	at := func(moment time.Time) {
		if moment.After(now) && (next.IsZero() || moment.Before(next)) {
			next = moment
		}
	}
	at(s.serving.cert.NotAfter)
	if s.signer != nil {
		at(s.signer.cert.NotAfter)
		at(renewal(s.signer.cert))
		at(renewal(s.serving.cert))
	}
	if s.next != nil {
		at(s.next.cert.NotAfter)
		if !s.published.IsZero() {
			at(s.published.Add(r.lifetimes.Settle))
		}
	}
	for _, ca := range s.trusted {
		at(ca.NotAfter)
		at(s.promoted.Add(r.lifetimes.Retire))
	}
	return next
}
