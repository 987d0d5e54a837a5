package machine

import (
	"math"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
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
	quota  leaky.Quota
	origin leaky.Instant // the instant at t = 0
	left   float64
	ends   float64 // when the next window begins
	ahead  int64   // what was let out ahead, into the next window
	cost   float64 // of a job
	by     verdict
}

// renew begins the window that contains t, of which used is gone.
func (d *dam) renew(t float64, used int64) {
	at := d.origin + leaky.Instant(math.Round(t*1e6))
	d.ends = float64(d.quota.Calendar.End(at)-d.origin) / 1e6
	d.left = d.whole(float64(max(0, d.quota.Max-used)))
}

// whole returns the cost of the whole jobs that fit. A job that costs more than the quota takes a whole window.
func (d *dam) whole(left float64) float64 {
	most := float64(d.quota.Max)
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
	rises  bool    // it earns nothing before it opens
	single float64 // the credit of one job
}

// within returns how much the station lets out in a time; in no time, at which rate.
func (s *station) within(t, dt float64) float64 {
	if s.opens > t {
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
	for i := range s.taps {
		s.taps[i].pass(dt, amount)
		if s.rises && s.opens > t {
			s.taps[i].credit = min(s.taps[i].credit, s.single)
		}
	}
	for i := range s.dams {
		s.dams[i].left = max(0, s.dams[i].left-amount)
	}
}

func (s *station) changes(t, rate float64) float64 {
	next := inf
	if s.opens > t {
		next = s.opens - t
	}
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

// turn begins new windows of quotas.
func (s *station) turn(t float64) {
	for i := range s.dams {
		if s.dams[i].ends <= t+tiny {
			s.dams[i].renew(s.dams[i].ends, s.dams[i].ahead)
			s.dams[i].ahead = 0
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
