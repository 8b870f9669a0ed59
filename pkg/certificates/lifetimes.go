package certificates

import (
	"fmt"
	"strings"
	"time"
)

// Lifetimes say how long certificates are valid, and how long each step of a rotation
// takes.
type Lifetimes struct {
	// CA and Serving are the validity of the certificates. Both are replaced when a
	// third of it is left.
	CA, Serving time.Duration
	// Settle is how long a CA must have been in every webhook configuration before it
	// signs: the time that the API servers' own copies of them may lag behind.
	Settle time.Duration
	// Retire is how long a CA is trusted after its successor began to sign: the time
	// that a replica may need to load the new certificate.
	Retire time.Duration
}

// defaultLifetimes are those of a production cluster. The serving certificate's is short,
// so that its rotation is something that happens every other month and not a surprise
// after years; the CA's is long, since its clients may have been given it by hand.
func defaultLifetimes() Lifetimes {
	const day = 24 * time.Hour
	return Lifetimes{CA: 10 * 365 * day, Serving: 90 * day, Settle: time.Minute, Retire: day}
}

// ParseLifetimes reads "ca=10m,serving=1m,settle=2s,retire=10s"; what is not named keeps
// its default.
func ParseLifetimes(text string) (Lifetimes, error) {
	l := defaultLifetimes()
	if text == "" {
		return l, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(item, "=")
		duration, err := time.ParseDuration(value)
		if err != nil || duration <= 0 {
			return l, fmt.Errorf("%q is not a positive duration for one of ca, serving, settle and retire, as in \"serving=24h,settle=10s\"", item)
		}
		switch name {
		case "ca":
			l.CA = duration
		case "serving":
			l.Serving = duration
		case "settle":
			l.Settle = duration
		case "retire":
			l.Retire = duration
		default:
			return l, fmt.Errorf("%q names none of ca, serving, settle and retire", item)
		}
	}
	return l, nil
}
