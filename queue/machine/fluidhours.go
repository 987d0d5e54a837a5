package machine

import (
	"math"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// hours are when jobs leave, or when deferred jobs come back.
type hours struct {
	schedule *queue.Schedule
	origin   leaky.Instant
	from, to float64 // the present span or, outside, the next one
	spans    int
	rough    *bool // set when the hours are no longer followed
}

// mostSpans is how many spans of hours are followed. After that they count as always open.
const mostSpans = 400

// hours returns hours to follow from the present on; nil if they are always open.
func (c *forecaster) hours(s *queue.Schedule) *hours {
	if s == nil {
		return nil
	}
	return &hours{schedule: s, origin: c.now, to: -1, rough: &c.rough}
}

// opens returns when jobs leave, not before t. t must not go back.
func (h *hours) opens(t float64) float64 {
	if t >= h.to-tiny && h.spans <= mostSpans {
		at := (h.origin + leaky.Instant(math.Round(t*1e6))).Time()
		from, to, ok := h.schedule.Span(at)
		if h.spans++; h.spans > mostSpans || !ok {
			*h.rough = true
			h.from, h.to, h.spans = t, inf, mostSpans+1
		} else {
			h.from, h.to = h.seconds(from), h.seconds(to)
		}
	}
	return max(t, h.from)
}

func (h *hours) seconds(at time.Time) float64 { return float64(at.UnixMicro()-int64(h.origin)) / 1e6 }

// changes returns after how long the hours are over, if they last now.
func (h *hours) changes(t float64) float64 {
	if h == nil || h.from > t+tiny || h.to == inf {
		return inf
	}
	return max(0, h.to-t)
}

// renew begins what is due: the windows of quotas, and spans of hours.
func (f *fluid) renew() {
	for _, s := range []*station{&f.own, f.group} {
		if s == nil {
			continue
		}
		open := s.shut <= f.t
		if s.renew(f.t); open && s.shut > f.t {
			f.unpass(s, lastPart(s.passed, s.single))
		}
	}
	for p := range f.ownPools {
		if p.hours == nil || p.opens > f.t+tiny {
			continue
		}
		if p.opens = max(p.opens, p.hours.opens(f.t)); p.opens > f.t && p.flows > 0 && len(p.ends) > 0 {
			f.own.credit(f.unpassOne(p, p.served-math.Floor(p.served/p.jobCost+tiny)*p.jobCost))
		}
	}
}

// lastPart returns how much of the last job has passed, all of it if the job departs now.
func lastPart(passed, job float64) float64 {
	return max(0, passed-(math.Ceil(passed/job-tiny)-1)*job)
}

// unpass undoes an amount that passed a station just before its hours ended. Of a job that would depart later, a part
// has passed, but in fact the job waits until the hours begin again.
func (f *fluid) unpass(s *station, amount float64) {
	total := 0.0
	each := f.ownPools
	if s == f.group {
		each = f.all
	}
	for p := range each {
		total += p.flows * p.lanes
	}
	if amount <= tiny || total <= tiny {
		return
	}
	own := 0.0
	for p := range f.ownPools {
		own += f.unpassOne(p, amount*p.flows/total)
	}
	f.own.credit(own)
	if f.group == nil {
		return
	}
	if s == f.group {
		for i := range f.siblings {
			own += f.unpassOne(&f.siblings[i], amount*f.siblings[i].flows/total)
		}
	}
	f.group.credit(own)
}

// unpassOne undoes an amount of each lane of a pool, and returns their sum.
func (f *fluid) unpassOne(p *pool, amount float64) (sum float64) {
	if len(p.ends) == 0 || amount <= tiny {
		return 0
	}
	sum = amount * p.lanes
	p.served, p.left = p.served-amount, p.left+sum
	p.credit = min(p.burst, p.credit+amount)
	for i := range f.marks {
		m := &f.marks[i]
		if m.pool >= 0 && &f.pools[m.pool] != p || m.pool < 0 && f.overflow != p {
			continue
		}
		if m.passed && m.at >= f.t-tiny {
			m.left, m.passed = 0, false
		}
		if !m.passed {
			m.left += amount
		}
	}
	return sum
}

// credit gives an amount back that passed the station.
func (s *station) credit(amount float64) {
	s.passed -= amount
	for i := range s.taps {
		s.taps[i].credit = min(s.taps[i].burst, s.taps[i].credit+amount)
	}
	for i := range s.dams {
		s.dams[i].left += amount
	}
}
