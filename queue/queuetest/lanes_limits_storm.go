package queuetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/penstock/penstock/queue"
)

// laneStorm runs random operations on a queue whose lanes have limits. No window of a lane may cost more than the rate
// times its length, and the burst: neither by the charges, nor by the actual costs that replace them later and are
// lower. No lane waits for another one.
func (r *rig) laneStorm(rnd *rand.Rand, name string) {
	r.Helper()
	own, other := laneTokens("100/s 200", "37/s 1000"), laneTokens("50/s 300")
	r.put(spec(name, "unlimited", everyLane(own), except(laneY, other), estimating("tokens=60"), longLease))
	all := map[string][]charge{}
	type flight struct {
		queue.Reservation
		charged int // index of its charge in the list of its lane
	}
	var flying []flight
	for step, n := 0, 0; step < 500; step++ {
		switch rnd.IntN(5) {
		case 0:
			if r.info(name).Waiting > 30 {
				continue
			}
			for range 1 + rnd.IntN(8) {
				n++
				j := jobOfLane([]string{laneX, laneY, laneZ}[rnd.IntN(3)], name, fmt.Sprint("j", n))
				if rnd.IntN(2) == 0 {
					j.Costs = map[string]int64{"tokens": rnd.Int64N(200)}
				}
				r.acceptJobs(j)
			}
		case 1, 2:
			for _, v := range r.reserve(name, 1+rnd.IntN(5)) {
				flying = append(flying, flight{v, len(all[v.Lane])})
				all[v.Lane] = append(all[v.Lane], charge{r.departure(v), v.Costs["tokens"]})
			}
		case 3:
			if len(flying) == 0 {
				continue
			}
			i := rnd.IntN(len(flying))
			v := flying[i]
			flying = slices.Delete(flying, i, i+1)
			used := rnd.Int64N(2*v.Costs["tokens"] + 1)
			switch rnd.IntN(4) {
			case 0:
				r.release(v.Reservation)
				used = 0
			case 1:
				r.deliver(v.Reservation)
				continue
			default:
				r.settled(queue.Delivered, actual(v.Reservation, fmt.Sprint("tokens=", used)))
			}
			c := &all[v.Lane][v.charged]
			c.cost = min(c.cost, used)
		default:
			r.clock.Advance(time.Duration(rnd.Int64N(1_500_000)) * time.Microsecond)
		}
	}
	r.check(r.e.Delete(r.ctx, name, queue.AnyRevision, true))
	for lane, list := range all {
		rule := own
		if lane == laneY {
			rule = other
		}
		r.holdsInWindows(fmt.Sprintf("%s, lane %q", name, lane), list, rule.Limits.List())
	}
}

// holdsInWindows checks that no window of the charges costs more than its limits allow.
func (r *rig) holdsInWindows(what string, all []charge, limits []queue.Limit) {
	r.Helper()
	if len(all) < 30 {
		r.Fatalf("%s: only %d departures", what, len(all))
	}
	slices.SortStableFunc(all, func(a, b charge) int { return cmp.Compare(a.at, b.at) })
	for _, l := range limits {
		for i := range all {
			if i > 0 && all[i-1].at == all[i].at { // a window has all of an instant
				continue
			}
			sum := int64(0)
			for _, c := range all[i:] {
				sum += c.cost
				most := float64(c.at-all[i].at)*l.Rate.PerSecond()/1e6 + float64(l.Burst)
				if c.cost > 0 && float64(sum) > most+1e-6 {
					r.Fatalf("%s: %d in %v by %s", what, sum, c.at.Sub(all[i].at), l.String())
				}
			}
		}
	}
}
