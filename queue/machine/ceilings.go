package machine

import (
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// ceilings are upper bounds, kept on file, of what answered grants have used. A bucket's bound is its TAT in whole
// microseconds; a quota's bound is what is used in a window. A further pace or a budget stores its TAT as the
// end of a window in which nothing is used. The slices are immutable.
type ceilings struct {
	tat    leaky.Instant
	limits []leaky.Window
}

// ceilingState is a queue's ceilings, on file and to be written.
type ceilingState struct {
	durable ceilings
	next    ceilings // the latest, including the current commit
	commit  uint64   // the last commit that raised them
}

func (m *Machine) raise(q *queueState, to ceilings) {
	q.ceiling.next = q.ceiling.next.max(to)
	q.ceiling.commit = m.current.Number
	m.touch(q)
}

// raiseForGrant raises the ceilings as far as q's grants need, and returns the commit that their answer waits for.
// Invariant 3, over a crash: answered grants never exceed what is on file.
func (m *Machine) raiseForGrant(q *queueState) (wait uint64) {
	need := q.neededCeilings()
	switch {
	case q.ceiling.durable.covers(need):
		return 0
	case !q.ceiling.next.covers(need):
		m.raise(q, q.raisedAhead(need))
	}
	return m.unlessDurable(q.ceiling.commit)
}

// replaceCeilings sets the ceilings to what the paces have used, after the paces changed: the old ceilings mean nothing
// any more.
func (m *Machine) replaceCeilings(q *queueState) {
	q.ceiling = ceilingState{next: q.ceilings(), commit: m.current.Number}
	m.touch(q)
}

// covers reports whether need is within c.
func (c ceilings) covers(need ceilings) bool {
	if need.tat > c.tat || len(need.limits) > len(c.limits) {
		return false
	}
	for i, w := range need.limits {
		if allowsMore(w, c.limits[i]) {
			return false
		}
	}
	return true
}

func (c ceilings) max(d ceilings) ceilings {
	return ceilings{
		max(c.tat, d.tat), pickWindows(c.limits, d.limits, func(a, b leaky.Window) bool { return allowsMore(a, b) }),
	}
}

// allowsMore reports whether more may have left by a than by b.
func allowsMore(a, b leaky.Window) bool {
	return a.Ends > b.Ends || a.Ends == b.Ends && a.Used > b.Used
}

// pickWindows picks, for each pair, the window of a if prefers says so, else the window of b.
func pickWindows(a, b []leaky.Window, prefers func(a, b leaky.Window) bool) []leaky.Window {
	if len(b) == 0 || slices.Equal(a, b) {
		return a
	}
	picked := slices.Clone(b)
	for i, w := range a[:min(len(a), len(b))] {
		if prefers(w, b[i]) {
			picked[i] = w
		}
	}
	return picked
}

func (p *paces) ceilings() ceilings {
	c := ceilings{tat: tat(p.bucket)}
	for _, l := range p.limits {
		if l.Paced() {
			c.limits = append(c.limits, leaky.Window{Ends: tat(l.bucket)})
		} else if l.IsBudget() {
			c.limits = append(c.limits, leaky.Window{Ends: tat(l.balance.Bucket())})
		} else {
			c.limits = append(c.limits, l.window)
		}
	}
	return c
}

// neededCeilings returns what must be on file before a grant is answered. Unlimited rates need nothing.
func (p *paces) neededCeilings() ceilings {
	c := p.ceilings()
	if p.pacer.Rate.Unlimited() {
		c.tat = 0
	}
	return c
}

// raisedAhead adds to what a grant needs, so that a fast queue commits a few times a second instead of with each grant.
// A crash loses the difference.
func (p *paces) raisedAhead(need ceilings) ceilings {
	to := ceilings{tat: need.tat.Add(lookahead(p.pacer)), limits: slices.Clone(need.limits)}
	for i := range to.limits {
		if l := &p.limits[i]; l.Paced() {
			to.limits[i].Ends = to.limits[i].Ends.Add(lookahead(l.pacer))
		} else if l.IsBudget() {
			to.limits[i].Ends = to.limits[i].Ends.Add(ceilingAhead)
		} else {
			to.limits[i].Used += l.quota.Most(to.limits[i]) / quotaAheadShare
		}
	}
	return to
}

const (
	ceilingAhead    = 250 * time.Millisecond
	oneGrantSlowest = time.Second
	quotaAheadShare = 1000 // 1/1000 of a quota
)

// lookahead returns how far a pace's ceiling is raised ahead. It is 0 for slow paces, and below leaky.MaxCost
// intervals, which is the bucket's own bound on reopening.
func lookahead(p leaky.Pacer) time.Duration {
	t := p.Rate.Interval()
	if t > ceilingAhead {
		return 0
	}
	return min(ceilingAhead, leaky.MaxCost*t/2)
}

// stretchedCeiling converts a bucket's ceiling to a lower rate. Pacer.Change converts the bucket itself later, at now
// or after. So the result is rounded up to cover grants below the old ceiling.
func (p *paces) stretchedCeiling(ceiling leaky.Instant, next leaky.Pacer, now leaky.Instant) leaky.Instant {
	was, is := p.pacer.Rate.PerSecond(), next.Rate.PerSecond()
	if is >= was || ceiling <= now {
		return ceiling
	}
	return now + leaky.Instant(math.Ceil(float64(ceiling-now)*was/is)) + 1
}

// oneGrantCeilings lets a job of the given cost leave within the next horizon without a commit of its own. The ceilings
// are written with the job's append.
func (p *paces) oneGrantCeilings(now leaky.Instant, of bill) ceilings {
	c := ceilings{tat: oneGrantTAT(p.pacer, p.bucket, now, of.cost)}
	for i := range p.limits {
		l := &p.limits[i]
		w, cost := l.window, of.costIn(l)
		if l.IsBudget() {
			w = leaky.Window{Ends: l.oneGrantBudget(now, cost)}
		} else if l.Paced() {
			w = leaky.Window{Ends: oneGrantTAT(l.pacer, l.bucket, now, cost)}
		} else if l.heldStep(now) {
			// After a crash, a window in which nothing left must not count as used.
		} else if l.quota.Affords(w, l.env.wall(now), cost) {
			l.quota.Take(&w, l.env.wall(now), cost)
		}
		c.limits = append(c.limits, w)
	}
	return c
}

// heldStep reports whether a ramp waits for the first departure of the present window.
func (l *limit) heldStep(now leaky.Instant) bool {
	return l.quota.Ramp.Hold && l.quota.At(l.window, l.env.wall(now)).Used == 0
}

// oneGrantBudget is oneGrantTAT for a budget.
func (l *limit) oneGrantBudget(now leaky.Instant, cost int64) leaky.Instant {
	b, at := l.balance, now.Add(queue.Horizon)
	l.budget.Take(&b, at, cost)
	if b.TAT-max(at, l.balance.TAT) > leaky.Instant(oneGrantSlowest.Microseconds()) {
		return 0
	}
	return tat(b.Bucket())
}

// oneGrantTAT returns the TAT after a grant of that cost within the next horizon. It is 0 for slow paces: a crash would
// cost them an unused slot, and one commit per grant is cheap there.
func oneGrantTAT(p leaky.Pacer, b leaky.Bucket, now leaky.Instant, cost int64) leaky.Instant {
	t := p.Rate.Interval()
	if p.Rate.Unlimited() || t > oneGrantSlowest {
		return 0
	}
	return max(tat(b), now.Add(queue.Horizon)).Add(time.Duration(cost)*t) + 1
}

// restore sets the paces of a queue whose process died, so that nothing it may have granted lies beyond them.
func (p *paces) restore(c ceilings, now leaky.Instant, maxCost int64) {
	p.bucket = restoredBucket(p.pacer, c.tat, now, maxCost)
	for i := range p.limits[:min(len(p.limits), len(c.limits))] {
		if l := &p.limits[i]; l.Paced() {
			l.bucket = restoredBucket(l.pacer, c.limits[i].Ends, now, maxCost)
		} else if l.IsBudget() {
			l.balance = leaky.Balance{}
			if ends := c.limits[i].Ends; ends != 0 {
				l.balance.TAT = max(ends, now).Add(queue.Horizon)
			}
			l.balance.NoRefunds(now.Add(queue.Horizon))
		} else {
			l.window = c.limits[i]
		}
	}
}

// restoredBucket returns a bucket when only its ceiling is known. Last is as late as a grant can have been, and
// LastCost as high as the ceiling needs. Otherwise the bucket's bound on its TAT would cut off what was granted.
func restoredBucket(p leaky.Pacer, ceiling, now leaky.Instant, maxCost int64) leaky.Bucket {
	if ceiling == 0 {
		return leaky.Bucket{}
	}
	last := now.Add(queue.Horizon)
	b := leaky.Bucket{TAT: max(ceiling, now), Last: last, LastCost: maxCost}
	if t := p.Rate.Interval(); t > 0 {
		b.TAT = b.TAT.Add(queue.Horizon)
		beyond := b.TAT.Sub(last) - time.Duration(p.Burst-1)*t
		b.LastCost = min(leaky.MaxCost, max(b.LastCost, int64(beyond/t)+1))
	}
	return b
}

// tat returns the bucket's TAT in microseconds, rounded up.
func tat(b leaky.Bucket) leaky.Instant {
	if b.Rem > 0 {
		return b.TAT + 1
	}
	return b.TAT
}

func (m *Machine) raiseWithAppend(q *queueState, now leaky.Instant, of bill) {
	m.raise(q, q.oneGrantCeilings(now, of))
	if p := q.parent(); p != nil { // its record has the greatest cost of its children
		m.raise(p, p.oneGrantCeilings(now, of))
	}
}

// noteCost notes the cost of a new job. After a restart, lanes are delayed as if they had just granted the costliest
// job.
func (q *queueState) noteCost(cost int64) {
	bounded := int32(min(cost, leaky.MaxCost))
	q.maxCost = max(q.maxCost, bounded)
	if p := q.parent(); p != nil {
		p.childMaxCost = max(p.childMaxCost, bounded)
	}
}
