package soak

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// The size of the world.
const (
	hosts = 10
	vms   = 100
)

// strategies are what VMs are given, "" for no label.
var strategies = []maintenance.Strategy{
	"", maintenance.StrategyMigrate, maintenance.StrategyRestartAfterEnable, maintenance.StrategyRestartAfterDisable, maintenance.StrategyShutdown,
}

// deed is something that a person does while a node is in maintenance, some time after
// what was done before.
type deed struct {
	after time.Duration
	// what is one of the constants below, about the VM of that number.
	what     string
	vm       int
	strategy maintenance.Strategy
}

const (
	relabel  = "relabel"
	power    = "power" // starts what is off, and stops what runs
	uncordon = "uncordon"
	addForce = "add force"
)

// visit is one maintenance of one host.
type visit struct {
	host   int
	after  time.Duration
	forced bool
	// cordoned says that somebody had cordoned the host before, and wants it to stay so.
	cordoned bool
	deeds    []deed
	// cancel is when it is called off; 0 for never: it is left when Completed.
	cancel time.Duration
}

// kill ends one of the two managers, some time after the last was ended.
type kill struct {
	after time.Duration
	// leader says that it is the one that leads, if there is one; else the other.
	leader bool
}

// round is what happens side by side before everything is looked at.
type round struct {
	visits []visit
	kills  []kill
}

// draw chooses a round. The same seed and number give the same one; what meets what in it
// is the machine's choice.
func draw(seed uint64, number int, deadly bool) round {
	r := rand.New(rand.NewPCG(seed, uint64(number))) // what is wanted is repeatable, not secret
	moment := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most))) }
	var drawn round
	untouched := r.Perm(vms) // no VM is touched twice in a round, so that it is clear who had the last word
	for _, host := range r.Perm(hosts)[:1+r.IntN(3)] {
		v := visit{host: host, after: moment(2 * time.Second), forced: r.IntN(5) == 0, cordoned: r.IntN(6) == 0}
		if r.IntN(3) == 0 {
			v.cancel = moment(6*time.Second) + 1
		}
		for range r.IntN(5) {
			d := deed{after: moment(1500 * time.Millisecond), vm: untouched[0]}
			untouched = untouched[1:]
			switch n := r.IntN(10); {
			case n < 5:
				d.what, d.strategy = relabel, strategies[r.IntN(len(strategies))]
			case n < 8:
				d.what = power
			case n < 9 && !v.cordoned:
				d.what = uncordon
			default:
				d.what = addForce
			}
			v.deeds = append(v.deeds, d)
		}
		drawn.visits = append(drawn.visits, v)
	}
	for n := r.IntN(4); deadly && n > 0; n-- {
		drawn.kills = append(drawn.kills, kill{after: moment(8 * time.Second), leader: r.IntN(3) > 0})
	}
	return drawn
}

// forces reports that a VM may meet force in the round.
func (r round) forces() bool {
	return slices.ContainsFunc(r.visits, func(v visit) bool {
		return v.forced || slices.ContainsFunc(v.deeds, func(d deed) bool { return d.what == addForce })
	})
}

// String tells a round in one line.
func (r round) String() string {
	var parts []string
	for _, v := range r.visits {
		text := fmt.Sprintf("host %d", v.host+1)
		if v.forced {
			text += " forced"
		}
		if v.cordoned {
			text += " cordoned before"
		}
		for _, d := range v.deeds {
			text += ", " + d.what
			if d.what == relabel || d.what == power {
				text += " " + nameOf(d.vm)
			}
		}
		if v.cancel > 0 {
			text += fmt.Sprintf(", called off after %.1f s", v.cancel.Seconds())
		}
		parts = append(parts, text)
	}
	return fmt.Sprintf("%s; %d kills", strings.Join(parts, "; "), len(r.kills))
}

func nameOf(vm int) string { return fmt.Sprintf("vm%03d", vm) }

func TestASeedGivesTheSameRoundsAgain(t *testing.T) {
	kinds := map[string]bool{}
	for number := range 50 {
		one, two := draw(7, number, true), draw(7, number, true)
		if !reflect.DeepEqual(one, two) {
			t.Fatalf("round %d is\n%s\nand\n%s", number, one, two)
		}
		if reflect.DeepEqual(one, draw(8, number, true)) {
			t.Errorf("round %d is the same with another seed", number)
		}
		for _, v := range one.visits {
			kinds["cancel"] = kinds["cancel"] || v.cancel > 0
			kinds["forced"] = kinds["forced"] || v.forced
			kinds["cordoned"] = kinds["cordoned"] || v.cordoned
			for _, d := range v.deeds {
				kinds[d.what] = true
			}
		}
		kinds["kill"] = kinds["kill"] || len(one.kills) > 0
	}
	for _, kind := range []string{"cancel", "forced", "cordoned", "kill", relabel, power, uncordon, addForce} {
		if !kinds[kind] {
			t.Errorf("50 rounds without one %q", kind)
		}
	}
}
