package queuetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// charge is what a budget charges at an instant: a departure, or a correction.
type charge struct {
	at   leaky.Instant
	cost int64
}

// unitStorm runs random operations on a queue with budgets and checks what they charge: in any window at most the rate
// times its length, and the burst.
func (r *rig) unitStorm(rnd *rand.Rand, name string) {
	r.Helper()
	s := spec(name, "unlimited", metered("100/s 200", "37/s 1000", "images 3/s 5"), estimating("tokens=60 images=1"),
		longLease)
	r.put(s)
	r.clock.Advance(time.Second)
	var all []charge
	var flying []queue.Reservation
	departures, latest := 0, leaky.Instant(0)
	for step, n := 0, 0; step < 500; step++ {
		switch rnd.IntN(5) {
		case 0:
			if r.info(name).Waiting > 30 {
				continue
			}
			for range 1 + rnd.IntN(8) {
				n++
				j := job(name, fmt.Sprint("j", n))
				if rnd.IntN(2) == 0 {
					j.Costs = map[string]int64{"tokens": rnd.Int64N(200)}
				}
				r.acceptJobs(j)
			}
		case 1, 2:
			for _, v := range r.reserve(name, 1+rnd.IntN(5)) {
				all, flying = append(all, charge{r.departure(v), v.Costs["tokens"]}), append(flying, v)
				departures, latest = departures+1, max(latest, r.departure(v))
			}
		case 3:
			if len(flying) == 0 {
				continue
			}
			r.clock.Set(max(r.clock.Now(), latest)) // what is given back earlier counts as given back then
			i := rnd.IntN(len(flying))
			v := flying[i]
			flying = slices.Delete(flying, i, i+1)
			now, used := r.clock.Now(), rnd.Int64N(2*v.Costs["tokens"]+1)
			switch rnd.IntN(4) {
			case 0:
				r.release(v)
				used = 0
			case 1:
				r.deliver(v)
				continue
			default:
				r.settled(queue.Delivered, actual(v, fmt.Sprint("tokens=", used)))
			}
			if used < v.Costs["tokens"] {
				all = append(all, charge{now, used - v.Costs["tokens"]})
			}
		default:
			r.clock.Advance(time.Duration(rnd.Int64N(1_500_000)) * time.Microsecond)
		}
	}
	r.check(r.e.Delete(r.ctx, name, queue.AnyRevision, true))
	if departures < 60 {
		r.Fatalf("only %d departures", departures)
	}
	slices.SortStableFunc(all, func(a, b charge) int { return cmp.Compare(a.at, b.at) })
	for _, l := range s.Limits[:2] {
		for i := range all {
			if i > 0 && all[i-1].at == all[i].at { // a window has all of an instant
				continue
			}
			sum := int64(0)
			for _, c := range all[i:] {
				sum += c.cost
				most := float64(c.at-all[i].at)*l.Rate.PerSecond()/1e6 + float64(l.Burst)
				if c.cost > 0 && float64(sum) > most+1e-6 {
					r.Fatalf("%s: %d in %v by %s", name, sum, c.at.Sub(all[i].at), l.String())
				}
			}
		}
	}
}
