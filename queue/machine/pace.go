package machine

import (
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// paces is what lets jobs out of a queue: its rate, its further limits and its hours.
type paces struct {
	pacer   leaky.Pacer
	bucket  leaky.Bucket
	limits  []limit
	hours   *openHours    // nil if always open
	changed leaky.Instant // when the limits last changed; 0: not since the queue was made or the file was opened
	adapted *adaptedRate  // the pacer's rate, if it adapts to the receiver; else nil
}

// paced yields the further paces.
func (p *paces) paced(yield func(*limit) bool) {
	for i := range p.limits {
		if l := &p.limits[i]; l.Paced() && !yield(l) {
			return
		}
	}
}

// quotas yields the quotas.
func (p *paces) quotas(yield func(*limit) bool) {
	for i := range p.limits {
		if l := &p.limits[i]; l.HasQuota() && !yield(l) {
			return
		}
	}
}

// budgets yields the budgets.
func (p *paces) budgets(yield func(*limit) bool) {
	for i := range p.limits {
		if l := &p.limits[i]; l.IsBudget() && !yield(l) {
			return
		}
	}
}

// opens returns the next departure, not before now, that the paces allow. The hours are another matter: other delays
// come before them.
func (p *paces) opens(now leaky.Instant) leaky.Instant {
	at := p.pacer.Next(p.bucket, now)
	for i := range p.limits {
		at = max(at, p.limits[i].opens(now))
	}
	return at
}

// freeSince returns since when the paces have allowed a departure, or when they will.
func (p *paces) freeSince(now leaky.Instant) leaky.Instant {
	at := p.pacer.Free(p.bucket, now)
	for i := range p.limits {
		if l := &p.limits[i]; l.Paced() {
			at = max(at, l.pacer.Free(l.bucket, now))
		} else if l.IsBudget() {
			at = max(at, l.budget.Free(&l.balance, now))
		} else {
			at = max(at, l.env.engine(l.quota.Free(l.window, l.env.wall(now))))
		}
	}
	if p.hours != nil {
		at = max(at, p.hours.since(max(at, now), now))
	}
	return at
}

// eta returns when a job of a queue departs, not before goes, with that much cost ahead of it, and the quota or budget
// that decides that, or nil.
func (p *paces) eta(of *queueState, goes, now leaky.Instant, ahead int64) (at leaky.Instant, by *limit) {
	at = p.hours.eta(p.pacer, p.bucket, goes, now, ahead)
	for l := range p.paced {
		at = max(at, p.hours.eta(l.pacer, l.bucket, goes, now, ahead))
	}
	for l := range p.budgets {
		if own := l.budgetETA(p.hours, of, goes, now, ahead); own > at {
			at, by = own, l
		}
	}
	for l := range p.quotas {
		begins, rest := l.quotaTurn(of, goes, ahead)
		own := goes
		if rest >= 0 {
			own = p.hours.eta(p.pacer, leaky.Bucket{}, l.env.engine(begins), now, rest)
		}
		if own > at {
			at, by = own, l
		}
	}
	return at, by
}

// affords reports whether each quota has enough left for a departure at d, an instant allowed by opens. The first quota
// that has too little loses the rest of its window. Otherwise later, cheaper jobs would overtake this one forever.
func (p *paces) affords(d leaky.Instant, of bill) bool {
	for l := range p.quotas {
		if cost := of.costIn(l); !l.quota.Affords(l.window, l.env.wall(d), cost) {
			l.quota.Take(&l.window, l.env.wall(d), cost)
			return false
		}
	}
	return true
}

// take takes a departure at d, an instant allowed by opens, hasCredit and affords.
func (p *paces) take(d, now leaky.Instant, of bill) {
	p.takeBuckets(d, now, of.cost)
	p.chargeBudgets(d, of)
	for l := range p.quotas {
		l.quota.Take(&l.window, l.env.wall(d), of.costIn(l))
	}
}

// takeBuckets takes a departure from all but the quotas and budgets.
func (p *paces) takeBuckets(d, now leaky.Instant, cost int64) {
	p.pacer.TakeAt(&p.bucket, now, d, cost)
	for l := range p.paced {
		l.pacer.TakeAt(&l.bucket, now, d, cost)
	}
}

// giveBack undoes the latest departure, which was never used. Quotas and budgets are refunded separately.
func (p *paces) giveBack() {
	p.pacer.GiveBack(&p.bucket)
	for l := range p.paced {
		l.pacer.GiveBack(&l.bucket)
	}
}

// refund gives a departure that was never used back to the quotas and budgets that counted it.
func (p *paces) refund(d, now leaky.Instant, of bill) {
	p.eachRefunded(d, func(l *limit) {
		if l.IsBudget() {
			l.budget.Correct(&l.balance, d, now, of.costIn(l), 0)
		} else {
			l.quota.GiveBack(&l.window, l.env.wall(d), of.costIn(l))
		}
	})
}

// takeQuotas undoes refund.
func (p *paces) takeQuotas(d, now leaky.Instant, of bill) {
	p.eachRefunded(d, func(l *limit) {
		if l.IsBudget() {
			l.budget.Correct(&l.balance, d, now, 0, of.costIn(l))
		} else {
			l.quota.TakeAgain(&l.window, l.env.wall(d), of.costIn(l))
		}
	})
}

// eachRefunded calls do for each current quota or budget that is known to have counted a departure.
func (p *paces) eachRefunded(d leaky.Instant, do func(*limit)) {
	if p.changed != 0 && d <= p.changed.Add(queue.Horizon) {
		return
	}
	for i := range p.limits {
		if l := &p.limits[i]; !l.Paced() {
			do(l)
		}
	}
}

// repairWindows corrects windows and balances that no grant can have left, at the beginning of a visit.
func (p *paces) repairWindows(now leaky.Instant) {
	for i := range p.limits {
		switch l := &p.limits[i]; {
		case l.HasQuota():
			l.window = l.quota.Repair(l.window, l.env.wall(now))
		case l.IsBudget():
			l.balance = l.budget.Bounded(l.balance, now)
		}
	}
}

// repairBuckets corrects buckets that no grant can have left. They open beyond the horizon, where Take grants nothing
// but corrects them.
func (p *paces) repairBuckets(now leaky.Instant) {
	horizon := now.Add(queue.Horizon)
	if p.pacer.Next(p.bucket, now) > horizon {
		p.pacer.Take(&p.bucket, now, 1)
	}
	for i := range p.limits {
		if l := &p.limits[i]; l.Paced() && l.opens(now) > horizon {
			l.pacer.Take(&l.bucket, now, 1)
		}
	}
}

// slowestRate returns the lowest rate of the queue and its further paces. Lost slots are counted by it.
func (p *paces) slowestRate() leaky.Rate {
	slowest := p.pacer.Rate
	for i := range p.limits {
		if r := p.limits[i].pacer.Rate; r.Interval() > slowest.Interval() {
			slowest = r
		}
	}
	return slowest
}

func (p *paces) hasPace() bool {
	return !p.pacer.Rate.Unlimited() || len(p.limits) > 0 || p.hours != nil
}

// interval returns the interval of the slowest rate in microseconds, rounded up; 0 without a rate.
func (p *paces) interval() leaky.Instant {
	r := p.slowestRate()
	if r.Unlimited() {
		return 0
	}
	n, d := r.Fraction()
	return intervals(1, d, n)
}

// withSpec returns the paces under another spec. A limit that stays keeps its state; new limits take over from removed
// ones.
func (p *paces) withSpec(spec *queue.Spec, env *Environment, now leaky.Instant) (next paces, err error) {
	next = paces{bucket: p.bucket, changed: p.changed, adapted: adaptedRateOf(spec, p.adapted, now)}
	next.pacer = next.adapted.pace(spec.Pacer(queue.Horizon))
	if next.hours = p.hours; p.hours == nil || p.hours.rules != spec.Hours {
		next.hours = newOpenHours(spec.Hours, env)
	}
	if p.pacer != next.pacer {
		next.bucket = p.pacer.Change(p.bucket, next.pacer, now)
	}
	if next.limits, err = carryOverLimits(p.limits, spec.Limits, env, now); err != nil {
		return paces{}, err
	}
	same := slices.EqualFunc(p.limits, next.limits, func(a, b limit) bool { return a.Limit == b.Limit })
	if !same {
		next.changed = now
	}
	return next, nil
}

// atRest returns what a deleted queue leaves behind: buckets without remainders and within their bounds. So a queue
// created again under another rule inherits no more than that rule allows.
func (p *paces) atRest(now leaky.Instant) paces {
	left := paces{pacer: p.pacer, bucket: atRest(p.pacer, p.bucket, now), limits: slices.Clone(p.limits)}
	for i := range left.limits {
		l := &left.limits[i]
		if l.IsBudget() {
			l.balance = l.budget.Change(l.balance, l.budget, now)
		} else {
			l.bucket = atRest(l.pacer, l.bucket, now)
		}
	}
	return left
}

func atRest(p leaky.Pacer, b leaky.Bucket, now leaky.Instant) leaky.Bucket {
	b = p.Change(b, p, now)
	b.TAT, b.Rem = tat(b), 0
	return b
}

// stillDelays reports whether a pace can still delay a departure, even if only under a greater burst.
func (p *paces) stillDelays(now leaky.Instant) bool {
	if p.bucket.TAT >= now || p.bucket.Last > now {
		return true
	}
	return slices.ContainsFunc(p.limits, func(l limit) bool {
		return l.bucket.TAT >= now || l.bucket.Last > now || l.balance.TAT >= now ||
			l.window.Ends > l.env.wall(now) && l.window.Used > 0
	})
}

func (p *paces) limitStates() (list []queue.LimitState) {
	for _, l := range p.limits {
		list = append(list, l.shown())
	}
	return list
}

// shown returns the state of a limit.
func (l *limit) shown() queue.LimitState {
	if l.IsBudget() {
		return queue.LimitState{Bucket: l.balance.Bucket()}
	}
	return queue.LimitState{Bucket: l.bucket, Window: l.window}
}

// setShown sets the state of a limit.
func (l *limit) setShown(s queue.LimitState) {
	if l.IsBudget() {
		l.balance = leaky.BalanceOf(s.Bucket)
	} else {
		l.bucket, l.window = s.Bucket, s.Window
	}
}

// limit is a further pace, with a bucket, a quota, with a window, or a budget, with a balance.
type limit struct {
	queue.Limit
	pacer   leaky.Pacer
	bucket  leaky.Bucket
	quota   leaky.Quota // its windows go by the wall clock
	window  leaky.Window
	budget  leaky.Budget
	balance leaky.Balance
	renewAt leaky.Instant // when to renew its calendar, which covers a limited number of windows; mostly never
	env     *Environment  // nil if the clocks show the same
	// carried is set once it has taken over the state of an earlier limit.
	carried bool
	onFile  leaky.Instant // of a lane: the TAT of its debt on file, see lanelimits.go
}

func newLimit(of queue.Limit, env *Environment, now leaky.Instant) (limit, error) {
	if of.Paced() {
		return limit{Limit: of, pacer: of.Pacer()}, nil
	}
	if of.IsBudget() {
		return limit{Limit: of, budget: of.Budget()}, nil
	}
	l := limit{Limit: of, env: env}
	return l, l.renewCalendar(env.wall(now))
}

// reason returns the limit as the reason why jobs wait.
func (l *limit) reason(now leaky.Instant) string {
	if !l.HasQuota() {
		return l.String()
	}
	return l.QuotaReason(l.quota, l.quota.At(l.window, l.env.wall(now)))
}

func (l *limit) opens(now leaky.Instant) leaky.Instant {
	if l.Paced() {
		return l.pacer.Next(l.bucket, now)
	}
	if l.IsBudget() {
		return l.budget.Next(&l.balance, now)
	}
	return l.env.engine(l.quota.Next(l.window, l.env.wall(now)))
}

// carryOverLimits makes the limits of a new spec. Each takes over the state of an equal old limit, or else of one of
// its kind.
func carryOverLimits(old []limit, spec []queue.Limit, env *Environment, now leaky.Instant) ([]limit, error) {
	var next []limit
	for _, of := range spec {
		l, err := newLimit(of, env, now)
		if err != nil {
			return nil, err
		}
		next = append(next, l)
	}
	old = slices.Clone(old)
	for _, like := range []func(a, b *limit) bool{
		func(a, b *limit) bool { return a.Limit == b.Limit },
		func(a, b *limit) bool { return a.HasQuota() == b.HasQuota() && a.Unit == b.Unit },
	} {
		for i := range next {
			l := &next[i]
			if l.carried {
				continue
			}
			if at := slices.IndexFunc(old, func(o limit) bool { return like(l, &o) }); at >= 0 {
				l.carryOver(&old[at], now)
				old = slices.Delete(old, at, at+1)
			}
		}
	}
	return next, nil
}

// carryOver takes over the state of another limit of the same kind.
func (l *limit) carryOver(o *limit, now leaky.Instant) {
	l.carried = true
	switch {
	case l.Limit == o.Limit:
		l.bucket, l.window, l.balance = o.bucket, o.window, o.balance
		l.balance.Wants = 0 // the next visit finds out
	case l.Paced():
		l.bucket = o.pacer.Change(o.bucket, l.pacer, now)
	case l.IsBudget():
		l.balance = o.budget.Change(o.balance, l.budget, now)
	default:
		l.window = l.quota.Follow(o.quota, o.window, l.env.wall(now))
	}
}
