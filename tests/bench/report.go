package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// table shows a scenario's results, one column for each tool, and how they compare
// with the aims.
func (s scenario) table(results []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s; %d slots allow %s\n\n", s, s.slots(), seconds(s.allowed()))
	out := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(name string, cell func(r result) string) {
		fmt.Fprint(out, name+"\t")
		for _, r := range results {
			fmt.Fprint(out, cell(r)+"\t")
		}
		fmt.Fprintln(out)
	}
	floor := results[0]
	row("", func(r result) string { return r.tool })
	row("wall time", func(r result) string { return seconds(r.wall) })
	row("ratio to the floor", func(r result) string { return fmt.Sprintf("%.2f", r.wall.Seconds()/floor.wall.Seconds()) })
	row("ratio to what slots allow", func(r result) string { return fmt.Sprintf("%.2f", r.wall.Seconds()/s.allowed().Seconds()) })
	row(fmt.Sprintf("slots taken, of %d", s.slots()), func(r result) string { return s.share(r.held) })
	row("all slots taken", func(r result) string { return fmt.Sprintf("%.1f %%", 100*r.full) })
	row(fmt.Sprintf("guests moving, of %d", s.slots()), func(r result) string { return s.share(r.moving) })
	row("VMs moved twice", func(r result) string { return fmt.Sprint(r.twice) })
	row("failed migrations", func(r result) string { return fmt.Sprint(r.failed) })
	row("last node cordoned after", func(r result) string { return fmt.Sprintf("%.2f s", slices.Max(r.cordoned).Seconds()) })
	row("last VM gone → done", func(r result) string { return fmt.Sprintf("%.2f s", (r.wall - r.empty).Seconds()) })
	row("requests", func(r result) string { return fmt.Sprint(r.sent.total) })
	row("per VM", func(r result) string { return fmt.Sprintf("%.1f", float64(r.sent.total)/float64(s.vms)) })
	for _, verb := range verbs(results) {
		row(verb, func(r result) string { return fmt.Sprint(r.sent.byVerb[verb]) })
	}
	row("and watches", func(r result) string { return fmt.Sprint(r.sent.watches) })
	row("and leases", func(r result) string { return fmt.Sprint(r.sent.leases) })
	_ = out.Flush() // into memory
	b.WriteByte('\n')
	for _, r := range results {
		fmt.Fprintf(&b, "%s: %s\n", r.tool, most(r.sent.byWhat))
	}
	s.aims(&b, floor, results[len(results)-1])
	return b.String()
}

func (s scenario) share(mean float64) string {
	return fmt.Sprintf("%.2f (%.0f %%)", mean, 100*mean/float64(s.slots()))
}

func verbs(results []result) []string {
	var list []string
	for _, r := range results {
		for verb := range r.sent.byVerb {
			if !slices.Contains(list, verb) {
				list = append(list, verb)
			}
		}
	}
	slices.Sort(list)
	return list
}

// aims are Drydock's. The requests are three for each VM and thirty for the drain of
// a node, but never more than fifty for ten VMs.
func (s scenario) aims(b *strings.Builder, floor, own result) {
	aim := func(met bool, format string, args ...any) {
		verdict := "met:   "
		if !met {
			verdict = "MISSED:"
		}
		fmt.Fprintf(b, "%s %s\n", verdict, fmt.Sprintf(format, args...))
	}
	b.WriteByte('\n')
	ratio := own.wall.Seconds() / floor.wall.Seconds()
	aim(ratio <= 1.05, "wall time at most 1.05 × floor: %.2f", ratio)
	most := 3*s.vms + 30*s.nodes
	if s.vms <= 10 {
		most = min(most, 50)
	}
	aim(own.sent.total <= most, "at most %d requests: %d", most, own.sent.total)
	rounds := (s.vms + s.slots() - 1) / s.slots()
	limit := time.Duration(rounds) * (s.migration + handover)
	aim(own.wall <= limit, "at most %s, %s for each handover: %s", seconds(limit), seconds(handover), seconds(own.wall))
	if s.vms%s.slots() == 0 { // otherwise some slots cannot but be idle at the end
		aim(own.full >= 0.97, "all slots taken 97 %% of the time: %.1f %%", 100*own.full)
	}
}

// handover is what may pass between the end of one guest's move and the beginning of
// the next one's in the same slot: 54 s for 10 VMs × 10 s.
const handover = 800 * time.Millisecond

// waits collects Drydock's reaction times over all scenarios.
type waits struct{ cordoned, completed []time.Duration }

func (w *waits) add(results []result) {
	own := results[len(results)-1]
	w.cordoned = append(w.cordoned, own.cordoned...)
	w.completed = append(w.completed, own.completed...)
}

func (w *waits) String() string {
	var b strings.Builder
	for _, row := range []struct {
		name  string
		times []time.Duration
	}{{"annotate → cordoned", w.cordoned}, {"last VM gone → Completed", w.completed}} {
		slices.Sort(row.times)
		if len(row.times) > 0 {
			fmt.Fprintf(&b, "%s: p50 %.2f s, p99 %.2f s, of %d\n", row.name, quantile(row.times, 0.5).Seconds(), quantile(row.times, 0.99).Seconds(), len(row.times))
		}
	}
	return b.String() + "\n"
}
