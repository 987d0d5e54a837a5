package machine

import (
	"math"

	"github.com/penstock/penstock/internal/cause"
)

// fluid computes how jobs leave as if they were a liquid, measured in cost: pools (lanes) flow out through taps (paces)
// and dams (quotas). What several pools share is divided max-min fairly by weights: no pool gets more by taking from
// one that has less for its weight (D. Bertsekas, R. Gallager, "Data Networks", 1992, 6.5.2). Between two events all
// rates are constant, so the fluid goes from event to event.
//
// A tap has a credit of one job while the next job can leave, so that the last drop of a job passes when the job
// departs.
type fluid struct {
	t        float64 // seconds since the beginning
	own      station
	group    *station // what the group shares; nil without a group
	pools    []pool
	overflow *pool   // gets what the pools leave; nil if nothing is deferred
	siblings []pool  // other members of the group
	weight   float64 // of the queue in its group
	inflows  []inflow
	marks    []mark

	dry     []float64 // when lanes ran dry, by index
	drained int       // the lane that did last, or -1
	shares  []share   // scratch
	work    int
	half    bend // the present when half of the work was done
	rough   bool // it was not followed to the end
	bends   []bend
}

const (
	inf  = math.MaxFloat64
	tiny = 1e-7
	// moment is the length of a step in which credit leaves at once.
	moment = 1e-9
	// mostWork bounds the pools looked at in all steps together.
	mostWork = 1_000_000
)

// mark asks when so much has left a pool, or the overflow if pool is -1.
type mark struct {
	pool   int
	left   float64
	at     float64
	passed bool
}

// inflow is jobs that enter a pool.
type inflow struct {
	at, depth float64
	pool      int
}

// fill divides what can leave in a time, or the rates now if dt is 0. It returns the queue's part. limited says that
// the group gives it less than it could use.
func (f *fluid) fill(dt float64) (total float64, limited bool) {
	f.work += 1 + len(f.pools) + len(f.siblings)
	f.shares = f.shares[:0]
	inPools, behind := 0.0, 0.0
	for i := range f.pools {
		p := &f.pools[i]
		asks, rests := p.within(f.t, dt), p.rests && p.credit <= tiny
		inPools = min(inf, inPools+asks*p.lanes)
		if rests && asks > 0 && dt > 0 { // what it rests for does not depend on its depth
			asks = p.tap.within(dt)
		}
		f.shares = append(f.shares, share{asks: asks, lanes: p.lanes, weight: p.weight, rests: rests})
	}
	if f.overflow != nil {
		behind = f.overflow.within(f.t, dt)
	}
	total = min(inPools+behind, f.own.within(f.t, dt))
	if f.group != nil {
		total, limited = f.fillGroup(total, dt)
	}
	divide(min(total, inPools), f.shares[:len(f.pools)])
	for i := range f.pools {
		p := &f.pools[i]
		if p.got = f.shares[i].gets; dt > 0 {
			p.got = min(p.got, p.depth())
		}
	}
	if f.overflow != nil {
		f.overflow.got = min(behind, max(0, total-inPools))
	}
	return total, limited
}

// fillGroup divides what can leave the group. It returns the part of the queue, which asks for so much.
func (f *fluid) fillGroup(asks, dt float64) (gets float64, limited bool) {
	for i := range f.siblings {
		p := &f.siblings[i]
		f.shares = append(f.shares, share{asks: p.within(f.t, dt), lanes: p.lanes, weight: p.weight})
	}
	f.shares = append(f.shares, share{asks: asks, lanes: 1, weight: f.weight})
	members := f.shares[len(f.pools):]
	divide(f.group.within(f.t, dt), members)
	for i := range f.siblings {
		f.siblings[i].got = members[i].gets
	}
	gets = members[len(members)-1].gets
	return gets, gets < asks*(1-tiny)
}

// run lets everything flow out.
func (f *fluid) run() {
	for {
		f.renew()
		f.flowIn()
		rate, limited := f.fill(0)
		if f.burst() && f.work <= mostWork {
			f.bend(0, verdict{})
			f.fill(moment)
			f.pass(moment)
			continue
		}
		f.keepRates()
		left := f.remaining()
		if left <= tiny && len(f.inflows) == 0 {
			f.bend(0, verdict{})
			return
		}
		f.bend(f.jobs(), f.verdict(rate, limited))
		dt := f.next(rate)
		if dt == inf {
			return
		}
		if f.work > mostWork && f.half.left > f.jobsLeft() {
			f.extrapolate()
			return
		} else if f.work > mostWork {
			f.rough = true
			return
		}
		if f.work > mostWork/2 && f.half.left == 0 {
			f.half = bend{t: f.t, left: f.jobsLeft()}
		}
		f.fill(dt)
		f.pass(dt)
	}
}

// flowIn adds inflows that are due.
func (f *fluid) flowIn() {
	for len(f.inflows) > 0 && f.inflows[0].at <= f.t+tiny {
		in := f.inflows[0]
		f.pools[in.pool].pour(in.depth)
		for i := range f.marks {
			if m := &f.marks[i]; m.pool == in.pool && !m.passed { // scheduled jobs keep their place before later ones
				m.left += in.depth
			}
		}
		f.inflows = f.inflows[1:]
	}
}

// all yields everything that holds jobs.
func (f *fluid) all(yield func(*pool) bool) {
	for i := range f.pools {
		if !yield(&f.pools[i]) {
			return
		}
	}
	for i := range f.siblings {
		if !yield(&f.siblings[i]) {
			return
		}
	}
	if f.overflow != nil {
		yield(f.overflow)
	}
}

// ownPools yields what holds the queue's jobs.
func (f *fluid) ownPools(yield func(*pool) bool) {
	for i := range f.pools {
		if !yield(&f.pools[i]) {
			return
		}
	}
	if f.overflow != nil {
		yield(f.overflow)
	}
}

// burst reports whether something leaves at once.
func (f *fluid) burst() bool {
	for p := range f.all {
		if p.got >= inf {
			return true
		}
	}
	return false
}

func (f *fluid) keepRates() {
	for p := range f.all {
		p.flows = p.got
	}
}

// pass lets out what fill divided.
func (f *fluid) pass(dt float64) {
	f.passMarks(dt)
	own := 0.0
	for p := range f.ownPools {
		own += p.got * p.lanes
		p.pass(f.t, dt, f.runDry)
	}
	all := own
	for i := range f.siblings {
		p := &f.siblings[i]
		all += p.got * p.lanes
		p.pass(f.t, dt, f.runDry)
	}
	f.own.pass(f.t, dt, own)
	if f.group != nil {
		f.group.pass(f.t, dt, all)
	}
	f.t += dt
}

func (f *fluid) runDry(index int, at float64) { f.dry[index], f.drained = at, index }

// passMarks notes which marks are reached.
func (f *fluid) passMarks(dt float64) {
	for i := range f.marks {
		m := &f.marks[i]
		p := f.overflow
		if m.pool >= 0 {
			p = &f.pools[m.pool]
		}
		if m.passed {
			continue
		}
		if m.left > p.got+tiny {
			m.left -= p.got
			continue
		}
		m.at, m.passed = f.t+dt, true
		if p.got > 0 {
			m.at = f.t + dt*min(1, m.left/p.got)
		}
	}
}

// next returns after how long something changes at that outflow; inf if nothing does.
func (f *fluid) next(rate float64) float64 {
	if f.own.opens >= inf || f.group != nil && f.group.opens >= inf {
		return inf
	}
	dt := f.own.changes(f.t, rate)
	if len(f.inflows) > 0 {
		dt = min(dt, f.inflows[0].at-f.t)
	}
	for p := range f.ownPools {
		dt = min(dt, p.changes(f.t), p.hours.changes(f.t))
	}
	all := rate
	for i := range f.siblings {
		all += f.siblings[i].flows * f.siblings[i].lanes
		dt = min(dt, f.siblings[i].changes(f.t))
	}
	if f.group != nil {
		dt = min(dt, f.group.changes(f.t, all))
	}
	return max(dt, moment)
}

// remaining returns the cost that is left, and jobsLeft the jobs.
func (f *fluid) remaining() (left float64) {
	for p := range f.ownPools {
		left += p.left
	}
	return left
}

func (f *fluid) jobsLeft() (left float64) {
	for p := range f.ownPools {
		left += p.left / p.jobCost
	}
	for _, in := range f.inflows {
		left += in.depth / f.pools[in.pool].jobCost
	}
	return left
}

// jobs returns the present outflow in jobs.
func (f *fluid) jobs() (n float64) {
	for p := range f.ownPools {
		n += p.flows * p.lanes / p.jobCost
	}
	return n
}

// extrapolate lets the rest flow as it has flowed since half of the work was done.
func (f *fluid) extrapolate() {
	f.rough = true
	if gone, left := f.half.left-f.jobsLeft(), f.jobsLeft(); gone > 0 {
		f.t += left * (f.t - f.half.t) / gone
	}
	for p := range f.ownPools {
		for p.left = 0; len(p.ends) > 0; p.ends = p.ends[1:] {
			if index := p.ends[0].index; index >= 0 {
				f.runDry(index, f.t)
			}
		}
	}
	for i := range f.marks {
		if !f.marks[i].passed {
			f.marks[i].at, f.marks[i].passed = f.t, true
		}
	}
	f.inflows = nil
	f.bend(0, verdict{})
}

// verdict returns what decides the present outflow.
func (f *fluid) verdict(rate float64, limited bool) verdict {
	if v, decides := f.own.verdict(f.t, rate); decides {
		return v
	}
	if f.group != nil && (limited || max(f.group.opens, f.group.shut) > f.t) {
		all := rate
		for i := range f.siblings {
			all += f.siblings[i].flows * f.siblings[i].lanes
		}
		if v, decides := f.group.verdict(f.t, all); decides {
			return v
		}
	}
	v, waits := verdict{by: cause.LaneRate}, false
	for p := range f.ownPools {
		switch {
		case len(p.ends) == 0:
		case p.opens <= f.t:
			return p.by
		case !waits || p.opens < v.until:
			v, waits = verdict{by: cause.Throttled}, true
			if p.hours != nil && p.hours.from == p.opens {
				v = p.shuts
			}
			v.until = p.opens
		}
	}
	if !waits && len(f.inflows) > 0 {
		return verdict{by: cause.Scheduled, until: f.inflows[0].at}
	}
	return v
}
