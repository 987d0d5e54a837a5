package boltq

import (
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// paces is what lets jobs out of a queue: its rate, and the limits beside it.
type paces struct {
	pacer   leaky.Pacer
	bucket  leaky.Bucket
	limits  []limit
	changed leaky.Instant // when the limits were; 0 is before the file was opened
	adapted *adaptedRate  // the rate of the pacer, if it follows what the receiver takes
}

// opens is the next departure that the paces allow, not before now.
func (p *paces) opens(now leaky.Instant) leaky.Instant {
	at := p.pacer.Next(p.bucket, now)
	for i := range p.limits {
		at = max(at, p.limits[i].opens(now))
	}
	return at
}

// freeSince is since when they allow one, if that is before now.
func (p *paces) freeSince(now leaky.Instant) leaky.Instant {
	at := p.pacer.Free(p.bucket, now)
	for i := range p.limits {
		if m := &p.limits[i]; m.Paced() {
			at = max(at, m.pacer.Free(m.bucket, now))
		} else if opens := m.opens(now); opens > now {
			at = max(at, opens)
		}
	}
	return at
}

// eta is when a job departs that has so much before it, and the quota that decides it; nil if
// it is none.
func (p *paces) eta(now leaky.Instant, ahead int64) (at leaky.Instant, by *limit) {
	at = p.pacer.ETA(p.bucket, now, ahead)
	for i := range p.limits {
		if m := &p.limits[i]; m.Paced() {
			at = max(at, m.pacer.ETA(m.bucket, now, ahead))
		}
	}
	for i := range p.limits {
		if m := &p.limits[i]; !m.Paced() {
			if own := m.quota.ETA(p.pacer, m.window, now, ahead); own > at {
				at, by = own, m
			}
		}
	}
	return at, by
}

// affords reports whether each quota has enough left for a departure at d, which opens has
// allowed. The first that has not forfeits what it had.
func (p *paces) affords(d leaky.Instant, cost int64) bool {
	for i := range p.limits {
		if m := &p.limits[i]; !m.Paced() && !m.quota.Affords(m.window, d, cost) {
			m.quota.Take(&m.window, d, cost)
			return false
		}
	}
	return true
}

// take takes a departure at d, which opens and affords have allowed.
func (p *paces) take(d, now leaky.Instant, cost int64) {
	p.pacer.TakeAt(&p.bucket, now, d, cost)
	for i := range p.limits {
		if m := &p.limits[i]; m.Paced() {
			m.pacer.TakeAt(&m.bucket, now, d, cost)
		} else {
			m.quota.Take(&m.window, d, cost)
		}
	}
}

// giveBack undoes the latest departure, which was never used. Quotas get theirs by refund.
func (p *paces) giveBack() {
	p.pacer.GiveBack(&p.bucket)
	for i := range p.limits {
		if m := &p.limits[i]; m.Paced() {
			m.pacer.GiveBack(&m.bucket)
		}
	}
}

// refund gives any departure that was never used back to the quotas that have counted it.
func (p *paces) refund(d leaky.Instant, cost int64) {
	if p.changed != 0 && d <= p.changed.Add(queue.Horizon) {
		return
	}
	for i := range p.limits {
		if m := &p.limits[i]; !m.Paced() {
			m.quota.GiveBack(&m.window, d, cost)
		}
	}
}

// repairWindows mends what no grant has left so: windows, at the beginning of a visit.
func (p *paces) repairWindows(now leaky.Instant) {
	for i := range p.limits {
		if m := &p.limits[i]; !m.Paced() {
			m.window = m.quota.Mend(m.window, now)
		}
	}
}

// repairBuckets does so with buckets, of which the next departure is beyond the horizon.
func (p *paces) repairBuckets(now leaky.Instant) {
	horizon := now.Add(queue.Horizon)
	if p.pacer.Next(p.bucket, now) > horizon {
		p.pacer.Take(&p.bucket, now, 1)
	}
	for i := range p.limits {
		if m := &p.limits[i]; m.Paced() && m.opens(now) > horizon {
			m.pacer.Take(&m.bucket, now, 1)
		}
	}
}

// slowestRate is the rate by which slots are counted: the lowest of the queue's and of its further
// paces.
func (p *paces) slowestRate() leaky.Rate {
	slowest := p.pacer.Rate
	for i := range p.limits {
		if r := p.limits[i].pacer.Rate; r.Interval() > slowest.Interval() {
			slowest = r
		}
	}
	return slowest
}

// interval is T, rounded up to a microsecond; 0 if nothing has a rate.
func (p *paces) interval() leaky.Instant {
	r := p.slowestRate()
	if r.Unlimited() {
		return 0
	}
	n, d := r.Fraction()
	return intervals(1, d, n)
}

// withSpec returns the paces as another spec makes them: a limit that was there before keeps its
// state, the others follow those that are there no more.
func (p *paces) withSpec(spec *queue.Spec, now leaky.Instant) (next paces, err error) {
	next = paces{bucket: p.bucket, changed: p.changed, adapted: adaptedRateOf(spec, p.adapted, now)}
	next.pacer = next.adapted.pace(spec.Pacer(queue.Horizon))
	if p.pacer != next.pacer {
		next.bucket = p.pacer.Change(p.bucket, next.pacer, now)
	}
	if next.limits, err = carryOverLimits(p.limits, spec.Limits, now); err != nil {
		return paces{}, err
	}
	same := slices.EqualFunc(p.limits, next.limits, func(a, b limit) bool { return a.Limit == b.Limit })
	if !same {
		next.changed = now
	}
	return next, nil
}

// atRest is what a queue that is deleted leaves: buckets at the end of their rules, within
// their bounds, so that they do not outlive a rule that allows less.
func (p *paces) atRest(now leaky.Instant) paces {
	left := paces{pacer: p.pacer, bucket: atRest(p.pacer, p.bucket, now), limits: slices.Clone(p.limits)}
	for i := range left.limits {
		m := &left.limits[i]
		m.bucket = atRest(m.pacer, m.bucket, now)
	}
	return left
}

func atRest(p leaky.Pacer, b leaky.Bucket, now leaky.Instant) leaky.Bucket {
	b = p.Change(b, p, now)
	b.TAT, b.Rem = tat(b), 0
	return b
}

// stillDelays reports whether any of it may still delay something: a bucket that would let a job out just
// now matters to a raised burst.
func (p *paces) stillDelays(now leaky.Instant) bool {
	if p.bucket.TAT >= now || p.bucket.Last > now {
		return true
	}
	return slices.ContainsFunc(p.limits, func(m limit) bool {
		return m.bucket.TAT >= now || m.bucket.Last > now || m.window.Ends > now && m.window.Used > 0
	})
}

// limitStates are those of the limits, for people.
func (p *paces) limitStates() (list []queue.LimitState) {
	for _, m := range p.limits {
		list = append(list, queue.LimitState{Bucket: m.bucket, Window: m.window})
	}
	return list
}
