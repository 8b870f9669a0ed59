package main

import (
	"slices"
	"time"
)

// span is a stretch of time.
type span struct{ from, to time.Time }

// use tells how well slots were used between two moments: how many were busy on
// average, and which share of the time all of them were.
func use(busy []span, from, to time.Time, slots int) (mean, full float64) {
	moments := []time.Time{from, to}
	for _, s := range busy {
		for _, at := range []time.Time{s.from, s.to} {
			if at.After(from) && at.Before(to) {
				moments = append(moments, at)
			}
		}
	}
	slices.SortFunc(moments, time.Time.Compare)
	var sum, all time.Duration
	for n := 1; n < len(moments); n++ {
		begin, length := moments[n-1], moments[n].Sub(moments[n-1])
		count := 0
		for _, s := range busy {
			if !s.from.After(begin) && s.to.After(begin) {
				count++
			}
		}
		sum += time.Duration(count) * length
		if count >= slots {
			all += length
		}
	}
	total := to.Sub(from)
	if total <= 0 {
		return 0, 0
	}
	return sum.Seconds() / total.Seconds(), all.Seconds() / total.Seconds()
}

// spans are the times from one station of each move to another.
func spans(moves []move, stations func(move) (from, to time.Time)) []span {
	var list []span
	for _, m := range moves {
		if from, to := stations(m); !from.IsZero() && !to.IsZero() {
			list = append(list, span{from, to})
		}
	}
	return list
}

// quantile returns the value that the given share of the sorted values do not exceed.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
