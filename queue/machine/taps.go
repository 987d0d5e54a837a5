package machine

import (
	"math"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// tap lets its credit out at once, and then its rate. In return for idleness it earns credit up to its burst.
type tap struct {
	rate, burst, credit float64
	by                  verdict
	// rests says that the tap earns nothing while it waits for its turn: it is a lane's and has no burst.
	rests bool
}

// verdict is what decides an outflow. until is when that is known to be over, or 0.
type verdict struct {
	by            cause.Cause
	queue, reason string
	until         float64
}

// flow returns the highest rate that the tap allows now.
func (t *tap) flow() float64 {
	switch {
	case t.credit > tiny:
		return inf
	case t.credit < -tiny:
		return 0
	}
	return t.rate
}

// within returns how much the tap lets out in a time.
func (t *tap) within(dt float64) float64 { return min(inf, max(0, t.credit+t.earns(dt))) }

// earns returns what the tap earns in a time.
func (t *tap) earns(dt float64) float64 {
	if t.rests && t.credit > 0 {
		return 0
	}
	return t.rate * dt
}

func (t *tap) pass(dt, amount float64) {
	had := t.credit
	t.credit = min(t.burst, t.credit+t.earns(dt)-amount)
	if t.rests {
		t.credit = min(t.credit, max(0, had))
	}
	if math.Abs(t.credit) < tiny {
		t.credit = 0
	}
}

// changes returns after how long flow changes at an outflow of that rate.
func (t *tap) changes(rate float64) float64 {
	switch {
	case t.credit > tiny && t.rests && rate > 0:
		return t.credit / rate
	case t.credit > tiny && rate > t.rate:
		return t.credit / (rate - t.rate)
	case t.credit < -tiny && t.rate > 0:
		return -t.credit / t.rate
	}
	return inf
}

// dam is a quota: it lets out what is left of its window.
type dam struct {
	limit  *limit
	quota  leaky.Quota   // in units of cost
	origin leaky.Instant // the instant at t = 0
	window leaky.Window  // the present one; what is used of it matters only to a ramp
	left   float64
	ends   float64 // when the next window begins
	cost   float64 // of a job
	by     verdict
	// ahead is the next window if jobs were let out ahead into it, which used aheadUsed; else zero.
	ahead     leaky.Window
	aheadUsed int64
}

// renew begins the window that contains t.
func (d *dam) renew(t float64) {
	if next := d.ahead; next.Ends != 0 {
		d.ahead = leaky.Window{}
		d.begin(next, d.aheadUsed)
		return
	}
	d.begin(d.quota.At(d.window, d.origin+leaky.Instant(math.Round(t*1e6))), 0)
}

// begin begins a window in which used is gone.
func (d *dam) begin(w leaky.Window, used int64) {
	d.window, d.ends = w, float64(w.Ends-d.origin)/1e6
	d.left = d.whole(float64(max(0, d.quota.Most(w)-used)))
	if d.by.reason == "" || d.limit.Ramp.On() {
		d.by.reason = d.limit.QuotaReason(d.limit.quota, w)
	}
}

// pass lets out an amount.
func (d *dam) pass(amount float64) {
	if d.left = max(0, d.left-amount); amount > tiny {
		d.window.Used = max(1, d.window.Used)
	}
}

// whole returns the cost of the whole jobs that fit. A job that costs more than the quota takes a whole window.
func (d *dam) whole(left float64) float64 {
	most := float64(d.quota.Most(d.window))
	if d.cost > most && left >= most {
		return d.cost
	}
	return math.Floor(left/d.cost+tiny) * d.cost
}

// station is the paces and quotas of a queue or parent.
type station struct {
	taps   []tap
	dams   []dam
	opens  float64 // nothing leaves before
	closed verdict // why
	rises  float64 // it earns nothing before
	single float64 // the credit of one job
	hours  *hours  // nil if always open
	shut   float64 // when the hours open next
	shuts  verdict // of the hours
	passed float64 // what has left
}

// within returns how much the station lets out in a time; in no time, at which rate.
func (s *station) within(t, dt float64) float64 {
	if s.opens > t || s.shut > t {
		return 0
	}
	most := inf
	for i := range s.taps {
		if dt == 0 {
			most = min(most, s.taps[i].flow())
		} else {
			most = min(most, s.taps[i].within(dt))
		}
	}
	for i := range s.dams {
		if left := s.dams[i].left; dt > 0 || left <= tiny {
			most = min(most, left)
		}
	}
	return most
}

func (s *station) pass(t, dt, amount float64) {
	s.passed += amount
	for i := range s.taps {
		s.taps[i].pass(dt, amount)
		if s.rises > t {
			s.taps[i].credit = min(s.taps[i].credit, s.single)
		}
	}
	for i := range s.dams {
		s.dams[i].pass(amount)
	}
}

func (s *station) changes(t, rate float64) float64 {
	if s.opens > t || s.shut > t {
		return max(s.opens, s.shut) - t
	}
	next := s.hours.changes(t)
	for i := range s.taps {
		next = min(next, s.taps[i].changes(rate))
	}
	for i := range s.dams {
		d := &s.dams[i]
		next = min(next, d.ends-t)
		if rate > 0 && d.left > tiny {
			next = min(next, d.left/rate)
		}
	}
	return next
}

// renew begins the windows of quotas that are due.
func (s *station) renew(t float64) {
	if s.hours != nil {
		s.shut = s.hours.opens(t)
	}
	for i := range s.dams {
		if d := &s.dams[i]; d.ends <= t+tiny {
			d.renew(max(t, d.ends))
		}
	}
}

// verdict returns what decides an outflow of that rate, if the station does.
func (s *station) verdict(t, rate float64) (verdict, bool) {
	if s.opens > t {
		v := s.closed
		if v.until = s.opens; s.opens == inf {
			v.until = 0
		}
		return v, true
	}
	if s.shut > t {
		v := s.shuts
		v.until = s.shut
		return v, true
	}
	for i := range s.dams {
		if d := &s.dams[i]; d.left <= tiny {
			v := d.by
			v.until = d.ends
			return v, true
		}
	}
	for i := range s.taps {
		if s.taps[i].flow() <= rate*(1+tiny) {
			return s.taps[i].by, true
		}
	}
	return verdict{}, false
}

// pool is lanes that always get the same: a lane, or several whose taps are alike.
type pool struct {
	tap
	ends    []laneEnd // the lanes that have something left, the shallowest first
	lanes   float64   // how many these are
	served  float64   // what each of them has let out
	left    float64   // what all of them have left
	jobCost float64
	weight  float64 // of each lane
	opens   float64
	hours   *hours      // nil if always open
	shuts   verdict     // of the hours
	rules   queue.Hours // of its lanes
	got     float64     // rate or amount, of each lane
	flows   float64     // got, as a rate
}

// laneEnd is where a lane ends, or several ones of the same depth.
type laneEnd struct {
	depth, lanes float64
	index        int // in Lineup.Lanes, or -1
}

// add adds a lane, or several of the same depth.
func (p *pool) add(e laneEnd) {
	p.lanes += e.lanes
	p.left += (e.depth - p.served) * e.lanes
	p.ends = append(p.ends, e)
}

// pour adds to the only lane of a pool.
func (p *pool) pour(depth float64) {
	if len(p.ends) == 0 {
		p.add(laneEnd{p.served, 1, -1})
	}
	p.ends[0].depth += depth
	p.left += depth
}

// depth returns what the shallowest lane has left.
func (p *pool) depth() float64 {
	if len(p.ends) == 0 {
		return 0
	}
	return p.ends[0].depth - p.served
}

func (p *pool) within(t, dt float64) float64 {
	switch {
	case len(p.ends) == 0 || p.opens > t:
		return 0
	case dt == 0:
		return p.flow()
	}
	return min(p.depth(), p.tap.within(dt))
}

// pass lets out got. It calls dry for each lane that runs dry, with the time.
func (p *pool) pass(t, dt float64, dry func(index int, at float64)) {
	p.tap.pass(dt, p.got)
	if p.opens > t && (p.hours == nil || p.hours.from != p.opens) {
		p.credit = min(p.credit, p.jobCost)
	}
	p.left = max(0, p.left-p.got*p.lanes)
	for p.served += p.got; len(p.ends) > 0 && p.depth() <= tiny; p.ends = p.ends[1:] {
		p.lanes -= p.ends[0].lanes
		if p.ends[0].index >= 0 {
			dry(p.ends[0].index, t+dt)
		}
	}
	if len(p.ends) == 0 {
		p.left = 0
	}
}

// changes returns after how long a lane runs dry or the tap changes.
func (p *pool) changes(t float64) float64 {
	switch {
	case len(p.ends) == 0:
		return inf
	case p.opens > t:
		return p.opens - t
	}
	next := p.tap.changes(p.flows)
	if p.flows > 0 {
		next = min(next, p.depth()/p.flows)
	}
	return next
}

// share is what each lane of a pool asks of something shared, and gets.
type share struct {
	asks, gets    float64
	lanes, weight float64 // number of lanes, and the weight of each
	// rests says that a lane waits for its own rate after each job. It then departs in the next slot of what is shared,
	// so that its interval is a whole number of slots, if others use the rest of them.
	rests bool
}

// divide divides an amount max-min fairly: each lane gets what it asks, or as much for its weight as the others do.
func divide(amount float64, all []share) {
	if open := waterFill(amount, all); open <= tiny || amount <= 0 || amount >= inf {
		return
	}
	again := false
	for i := range all {
		if s := &all[i]; s.rests && s.asks > 0 && s.gets == s.asks {
			s.asks, again = amount/math.Ceil(amount/s.asks-tiny), true
		}
	}
	if again {
		waterFill(amount, all)
	}
}

// waterFill is divide for lanes that could depart at any time. It returns the weight of those with less than they ask.
func waterFill(amount float64, all []share) (open float64) {
	for i := range all {
		all[i].gets = -1
		open += all[i].lanes * all[i].weight
	}
	left, level := amount, inf
	for again := true; again && open > tiny; {
		again = false
		if left < inf {
			level = max(0, left) / open
		}
		for i := range all {
			s := &all[i]
			if s.gets < 0 && s.asks <= s.level(level) {
				s.gets, again = s.asks, true
				open -= s.lanes * s.weight
				if left < inf {
					left -= s.asks * s.lanes
				}
			}
		}
	}
	for i := range all {
		if all[i].gets < 0 {
			all[i].gets = min(all[i].asks, all[i].level(level))
		}
	}
	return open
}

// level returns what a lane gets if a lane of weight 1 gets so much.
func (s *share) level(one float64) float64 {
	if one >= inf {
		return inf
	}
	return one * s.weight
}
