package machine

import (
	"maps"
	"slices"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// bill is what a job is charged: its cost, and its costs in other units as its record packs them.
type bill struct {
	queue *queueState // which has the estimates
	cost  int64
	costs string
}

func (j *job) bill() bill {
	of := bill{queue: j.lane.queue, cost: int64(j.cost)}
	if j.costs != nil {
		of.costs = *j.costs
	}
	return of
}

// setCosts keeps the costs in a job's record. Most jobs have none.
func (j *job) setCosts(record []byte) {
	if !jobrecord.HasCosts(record) {
		return
	}
	if h, err := jobrecord.UnpackHead(record); err == nil && h.Costs != "" {
		j.costs = &h.Costs
	}
}

// unstated returns what a job without a cost in a unit is charged: the default of the estimate, or 1. What was learned
// may have changed between its departure and its settlement.
func (q *queueState) unstated(unit string) int64 {
	var above *queue.Spec
	if p := q.parent(); p != nil {
		above = p.spec
	}
	if e, ok := queue.EstimateOf(q.spec, above, unit); ok {
		return e.Default
	}
	return 1
}

// costIn returns what a limit charges for a job. A job that was appended before its queue counted the unit is charged
// the default of the estimate.
func (of bill) costIn(l *limit) int64 {
	if l.Unit == "" {
		return of.cost
	}
	if cost, ok := jobrecord.CostIn(of.costs, l.Unit); ok {
		return cost
	}
	return of.queue.unstated(l.Unit)
}

// countsUnit reports whether a limit of the queue, its lanes or its parent counts a unit.
func (q *queueState) countsUnit(unit string) bool {
	with := func(l limit) bool { return l.Unit == unit }
	p := q.parent()
	return slices.ContainsFunc(q.limits, with) || p != nil && slices.ContainsFunc(p.limits, with) ||
		q.spec.Lanes.Count(unit)
}

// unitsOf yields the units that limits count for a job of a lane, some of them twice.
func (q *queueState) unitsOf(lane string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, p := range [...]*queueState{q, q.parent()} {
			for i := 0; p != nil && i < len(p.limits); i++ {
				if unit := p.limits[i].Unit; unit != "" && !yield(unit) {
					return
				}
			}
		}
		for _, l := range q.spec.Lanes.Of(lane).Limits.List() {
			if !yield(l.Unit) {
				return
			}
		}
	}
}

// resolveCosts gives a new job its costs in all units that limits count: its own, or else the estimates. Errors: an
// *invalid.Error.
func (q *queueState) resolveCosts(it *appendingJob) error {
	for _, unit := range queue.UnitsOf(it.job.Costs) {
		if !q.countsUnit(unit) {
			return queue.UncountedUnit("costs", unit, q.name)
		}
	}
	var all map[string]int64
	for unit := range q.unitsOf(it.job.Lane) {
		if all == nil {
			all = maps.Clone(it.job.Costs)
		}
		if _, stated := all[unit]; stated {
			continue
		}
		cost, ok := q.estimate(unit)
		if !ok {
			return queue.MissingCost(unit, q.name)
		}
		if all == nil {
			all = map[string]int64{}
		}
		all[unit] = cost
	}
	if len(all) > len(it.job.Costs) {
		it.job.Costs, it.record = all, jobrecord.WithCosts(it.record, all)
	}
	return nil
}

// checkActual returns why actual costs cannot be charged, or nil.
func (q *queueState) checkActual(actual map[string]int64) error {
	for _, unit := range queue.UnitsOf(actual) {
		if !q.countsUnit(unit) {
			return queue.UncountedUnit("actual", unit, q.name)
		}
	}
	return nil
}

// hasCredit reports whether each budget has enough for a departure at d, an instant allowed by opens. Budgets that have
// too little open later, when there is enough.
func (p *paces) hasCredit(rs reigns, d leaky.Instant, of bill) bool {
	enough := true
	for l := range p.budgets {
		rs.shiftBudget(l)
		if cost := of.costIn(l); !l.budget.Affords(&l.balance, d, cost) {
			l.budget.Want(&l.balance, cost)
			enough = false
		}
	}
	return enough
}

// chargeBudgets charges the budgets for a departure at d, for which they have credit.
func (p *paces) chargeBudgets(d leaky.Instant, of bill) {
	for l := range p.budgets {
		l.budget.Take(&l.balance, d, of.costIn(l))
	}
}

// correct charges actual in place of what was charged for a departure at d.
func (p *paces) correct(d, now leaky.Instant, of bill, actual map[string]int64) {
	p.eachRefunded(d, func(l *limit) {
		if cost, stated := actual[l.Unit]; stated && l.Unit != "" {
			l.recharge(d, now, of.costIn(l), cost)
		}
	})
}

// uncorrect undoes correct. What a budget charged in addition was charged at the instant of the correction.
func (p *paces) uncorrect(b givenBack, now leaky.Instant, of bill) {
	p.eachRefunded(b.lease.due, func(l *limit) {
		cost, stated := b.actual[l.Unit]
		if !stated || l.Unit == "" {
			return
		}
		d := b.lease.due
		if l.IsBudget() && cost > of.costIn(l) {
			d = b.at
		}
		l.recharge(d, now, cost, of.costIn(l))
	})
}

// recharge charges a cost in place of another one, for a departure at d.
func (l *limit) recharge(d, now leaky.Instant, charged, actual int64) {
	if l.IsBudget() {
		l.budget.Correct(&l.balance, d, now, charged, actual)
	} else {
		l.quota.Correct(&l.window, l.env.wall(d), charged, actual)
	}
}

// correctCharges corrects the charges of a lease that ends, unless the job did not start or was a failed probe: a
// queue with a circuit gives such charges back whole.
func (m *Machine) correctCharges(o *leaseOutcome, actual map[string]int64, now leaky.Instant) {
	j, q := o.job, o.job.lane.queue
	if len(actual) == 0 || o.unused || o.probe {
		return
	}
	of, was := j.bill(), *j.lease
	if g := q.group; g != nil {
		g.since = max(g.since, min(now, g.queue.freeSince(now)))
		g.slotBack = true
	}
	m.learnCosts(q, actual)
	q.correct(was.due, now, of, actual)
	m.raiseForGrant(q)
	if p := q.parent(); p != nil {
		p.correct(was.due, now, of, actual)
		m.raiseForGrant(p)
	}
	q.rechargeLane(j.lane, now, func(p *paces) { p.correct(was.due, now, of, actual) })
	m.keepDebts(j.lane, now)
	m.current.givenBack = append(m.current.givenBack, givenBack{lease: &was, actual: actual, at: now})
	o.corrected = true
}

// budgetETA returns when a budget lets a job of a queue depart, not before goes, with that many jobs ahead of it.
func (l *limit) budgetETA(h *openHours, of *queueState, goes, now leaky.Instant, ahead int64) leaky.Instant {
	typical := of.typical(l.Unit)
	more := min(ahead, mostAhead)*typical + l.budget.Used(&l.balance, goes) + min(typical, l.budget.Burst) - l.budget.Burst
	p := leaky.Pacer{Rate: l.budget.Rate, Burst: 1, Horizon: queue.Horizon}
	return h.eta(p, leaky.Bucket{}, goes, now, max(0, more))
}

// mostAhead is how many jobs an estimate in other units considers, and latestTurn the last instant of it, in the year
// 2255: below 2^53, numbers are exact in Lua, too.
const mostAhead, latestTurn = 4_000_000, 9_000_000_000_000_000

// quotaTurn is leaky.Quota.Turn with that many jobs of a queue ahead. rest is a number of jobs.
func (l *limit) quotaTurn(of *queueState, goes leaky.Instant, ahead int64) (begins leaky.Instant, rest int64) {
	if l.Unit == "" {
		return l.quota.Turn(l.window, l.env.wall(goes), ahead)
	}
	typical := of.typical(l.Unit)
	begins, rest = l.quota.Turn(l.window, l.env.wall(goes), min(ahead, mostAhead)*typical)
	if begins >= latestTurn {
		return latestTurn, 0
	}
	if rest > 0 {
		rest /= max(1, typical)
	}
	return begins, rest
}
