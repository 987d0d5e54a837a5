package queuetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// charge is what a departure costs by a budget.
type charge struct {
	at   leaky.Instant
	cost int64
}

// unitStorm runs random operations on a queue with budgets. No window may cost more than the rate times its length, and
// the burst: neither by the charges, nor by the actual costs that replace them later and are lower.
func (r *rig) unitStorm(rnd *rand.Rand, name string) {
	r.Helper()
	s := spec(name, "unlimited", metered("100/s 200", "37/s 1000", "images 3/s 5"), estimating("tokens=60 images=1"),
		longLease)
	if rnd.IntN(2) == 0 {
		s.Estimate["tokens"] = queue.Estimate{Default: 60, Learn: "p50"}
	}
	r.put(s)
	r.clock.Advance(time.Second)
	var all []charge
	type flight struct {
		queue.Reservation
		charged int // its place in all
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
				j := job(name, fmt.Sprint("j", n))
				if rnd.IntN(2) == 0 {
					j.Costs = map[string]int64{"tokens": rnd.Int64N(200)}
				}
				r.acceptJobs(j)
			}
		case 1, 2:
			for _, v := range r.reserve(name, 1+rnd.IntN(5)) {
				flying = append(flying, flight{v, len(all)})
				all = append(all, charge{r.departure(v), v.Costs["tokens"]})
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
			all[v.charged].cost = min(all[v.charged].cost, used)
		default:
			r.clock.Advance(time.Duration(rnd.Int64N(1_500_000)) * time.Microsecond)
		}
	}
	r.check(r.e.Delete(r.ctx, name, queue.AnyRevision, true))
	r.holdsInWindows(name, all, s.Limits[:2])
}
