package machine

import (
	"context"
	"encoding/binary"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// The limits of lanes in units other than jobs are budgets, as limits of queues are, except for two things. A rule may
// change for a million lanes at once, so each lane follows it when something next looks at that lane. And the file has
// no ceilings of lanes: after a restart, their bursts count as used up. Debts beyond the burst are written, because
// they may last for hours.

// follow makes the limits follow another rule. Departures up to the last one were charged by the rule before.
func (p *lanePace) follow(rule queue.LaneLimits, now leaky.Instant) {
	p.limits, _ = carryOverLimits(p.limits, rule.List(), nil, now) // only quotas can fail
	p.limitsOf, p.changed = rule, p.bucket.Last.Add(-queue.Horizon)
}

// unknownPace returns the paces of a lane about which nothing is known. They cover what an earlier process may have
// granted, up to the horizon beyond its end.
func (ln *lane) unknownPace(rule *queue.LaneRule, now leaky.Instant) (p lanePace) {
	p.pacer, p.guessed = rule.Pacer(), true
	if rule.Limits.On() {
		p.follow(rule.Limits, now)
	}
	if ln.pace != nil {
		p.commit = ln.pace.commit
	}
	if e := ln.queue.earlier; e != nil {
		p.bucket, p.coveredCost = p.pacer.Delay(leaky.Bucket{}, e.until, e.maxCost), e.maxCost
		p.lose(e.until.Add(queue.Horizon))
	}
	return p
}

// lose leaves nothing of the bursts of the limits at an instant.
func (p *lanePace) lose(at leaky.Instant) {
	for l := range p.budgets {
		l.balance = l.budget.Lost(l.balance, at)
	}
}

// delaysUntil returns until when the paces delay a departure. Each may count as up to a horizon later than it is
// (reign.go), so it is kept that much longer.
func (p *lanePace) delaysUntil() leaky.Instant {
	at := p.bucket.TAT
	for i := range p.limits {
		at = max(at, p.limits[i].balance.TAT)
	}
	return at.Add(queue.Horizon)
}

// hasCredit reports whether the lane's limits have enough for a departure of its first job at d, an instant allowed by
// judge.
func (ln *lane) hasCredit(rs reigns, d leaky.Instant) bool {
	if rule := ln.rule(); !rule.Limits.On() {
		return true
	}
	ln.pace.guessed = false // it may begin to want credit
	return ln.pace.hasCredit(rs, d, ln.waiting.front().bill())
}

// rechargeLane changes what the limits of a job's lane were charged for it. A lane that rests may then leave sooner.
func (q *queueState) rechargeLane(ln *lane, now leaky.Instant, change func(*paces)) {
	p, _ := ln.pacing(now, now)
	if len(p.limits) == 0 {
		return
	}
	change(&p.paces)
	p.guessed = false
	ln.keep(&p)
	t := q.laneTurns
	if t == nil || ln.heap != t.resting || ln.until == never {
		return
	}
	if at := ln.opens(now, now); at > now {
		t.rest(ln, at)
	} else {
		t.makeReady(ln, t.resumes(ln, now))
	}
}

// expects makes the lane's limits wait, in opens, for the credit that a job needs.
func (ln *lane) expects(of bill) {
	rule := ln.rule()
	if !rule.Limits.On() {
		return
	}
	ln.pace.guessed = false
	for l := range ln.pace.budgets {
		l.budget.Want(&l.balance, of.costIn(l))
	}
}

// inDebt reports whether a limit has more than its burst in use at an instant, which a restart would forget. unwritten
// reports whether some of this is not on file.
func (p *lanePace) inDebt(at leaky.Instant) (debt, unwritten bool) {
	for l := range p.budgets {
		if l.budget.Used(&l.balance, at) > l.budget.Burst {
			debt, unwritten = true, unwritten || tat(l.balance.Bucket()) > l.onFile
		}
	}
	return debt, unwritten
}

// keepDebts writes the debts of a lane after a departure or a correction, and returns the commit that the answer must
// wait for, or 0. Like ceilings, the written debts are a little higher than the present ones, so few departures write.
func (m *Machine) keepDebts(ln *lane, at leaky.Instant) (wait uint64) {
	if ln.pace == nil || len(ln.pace.limits) == 0 {
		return 0
	}
	p := ln.pace
	debt, unwritten := p.inDebt(at)
	if !debt {
		return 0
	}
	if unwritten {
		left := p.paces
		left.limits = nil
		for l := range p.budgets {
			l.onFile = tat(l.balance.Bucket()).Add(ceilingAhead)
			of := *l
			of.balance = leaky.Balance{TAT: l.onFile}
			left.limits = append(left.limits, of)
		}
		m.current.putDebts(ln, at, &left)
		p.commit = m.wait()
	}
	return m.unlessDurable(p.commit)
}

// dropDebts drops what is written of a lane's debts.
func (m *Machine) dropDebts(ln *lane) {
	if ln.pace != nil && ln.pace.commit != 0 {
		m.current.dropNamed(laneDebtsTable, debtsKey(ln))
		ln.pace.commit = 0
	}
}

// debtsKey returns the key of a lane's debts: the number of its queue, and its digest.
func debtsKey(ln *lane) string {
	return string(append(binary.BigEndian.AppendUint64(nil, ln.queue.number), ln.digest[:]...))
}

func (s *effects) putDebts(ln *lane, at leaky.Instant, p *paces) {
	value, err := encodePaces(p)
	if err != nil {
		s.err = err
		return
	}
	s.putNamed(laneDebtsTable, debtsKey(ln), append(encode(&ln.key, &at), value...))
}

// loadDebts restores lanes with debts.
func (l *loader) loadDebts(context.Context) error {
	return forEach(l.Table(laneDebtsTable), func(k, v []byte) error {
		var key string
		var at leaky.Instant
		rest, err := decode(v, "debts of a lane", &key, &at)
		if err != nil {
			return err
		}
		was, err := decodePaces(rest, nil, l.now)
		if err != nil {
			return err
		}
		q := (*queueState)(nil)
		if len(k) == 8+len(queue.LaneDigest{}) {
			q = l.byNumber[binary.BigEndian.Uint64(k)]
		}
		if q == nil || key == "" {
			l.current.dropNamed(laneDebtsTable, string(k))
			return nil
		}
		l.restoreDebts(q.lane(key, queue.LaneDigest(k[8:])), at, was.limits)
		return nil
	})
}

// restoreDebts restores the debts of a lane that were written at an instant. If its rule has changed since, it is not
// known when the lane followed, and until then the former rate paid the debt. So the debt is converted as if the lane
// had followed at once, and as if it follows now; the higher result counts.
func (l *loader) restoreDebts(ln *lane, at leaky.Instant, was []limit) {
	rule := ln.rule()
	p := ln.unknownPace(&rule, l.now)
	p.commit, p.guessed = l.durable, false
	for i, to := range p.limits {
		for _, when := range []leaky.Instant{at, l.now} {
			if next, _ := carryOverLimits(was, rule.Limits.List(), nil, when); i < len(next) {
				to.balance = to.budget.Later(to.balance, next[i].balance, l.now)
			}
		}
		p.limits[i].balance = to.budget.Lost(to.balance, l.now.Add(queue.Horizon))
	}
	ln.keep(&p)
	if ln.size == 0 && ln.heap == nil {
		ln.queue.storeLane(ln)
		ln.until = ln.neededUntil()
		ln.enter(&l.idleLanes)
	}
}
