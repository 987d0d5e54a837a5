package machine

import (
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// queueRules is the rules that a queue's jobs ask. It is immutable.
type queueRules struct {
	set   ruleset.Set
	rules []*rule // the same, in the same order
}

// ruleCache is the rules of a queue as of a version of all rules.
type ruleCache struct {
	rules        *queueRules // nil without rules
	rulesVersion uint64
}

// rulesOf returns the rules of a queue, or nil.
func (m *Machine) rulesOf(q *queueState) *queueRules {
	if len(m.ruleUses) == 0 {
		return nil
	}
	if q.rulesVersion != m.rulesVersion {
		q.rules, q.rulesVersion = m.findRules(q), m.rulesVersion
	}
	return q.rules
}

func (m *Machine) findRules(q *queueState) *queueRules {
	var above []string
	if p := m.queues[names.Parent(q.name)]; p != nil {
		above = p.spec.Rules
	}
	asked := ruleset.Names(q.name, above, q.spec.Rules)
	if len(asked) == 0 {
		return nil
	}
	qr := &queueRules{}
	for _, name := range asked {
		if r := m.rules[name]; r != nil {
			qr.set = append(qr.set, ruleset.ParsedRule{Rule: r.Rule, Template: r.template})
			qr.rules = append(qr.rules, r)
		}
	}
	return qr
}

// FindAsks finds what the jobs ask of rules, using the rules that RulesOf noted. It needs no machine: finding a key in
// a payload may take a while. Append finds whatever is left.
func (a *Appending) FindAsks() {
	for _, it := range a.open {
		if it.rules != nil {
			it.findAsks(it.rules)
		}
	}
}

// RulesOf notes, once, which rules the jobs will ask, and reports whether they ask any.
func (m *Machine) RulesOf(a *Appending) (some bool) {
	if len(m.ruleUses) == 0 || a.rulesNoted {
		return false
	}
	a.rulesNoted = true
	for _, it := range a.open {
		if q := m.queues[it.job.Queue]; q != nil {
			it.rules = m.rulesOf(q)
			some = some || it.rules != nil
		}
	}
	return some
}

func (it *appendingJob) findAsks(qr *queueRules) {
	it.rules = qr
	it.asks, it.asksErr = qr.set.Asks(&it.job)
	it.askKeys = make([]queue.LaneDigest, len(it.asks))
	for i := range it.asks {
		it.askKeys[i] = queue.DigestLane(it.asks[i].Key)
	}
}

// ruleCharges is what rules said about a job, and what it takes from them.
type ruleCharges struct {
	answers []rules.Ruling
	charges []ruleCharge
}

type ruleCharge struct {
	rule  *rule
	key   queue.LaneDigest
	limit leaky.Limiter
	ask   leaky.Ask
}

// askRules asks the rules about a job. Nothing is taken before the job comes in: see chargeRules. invalid is set if a
// key cannot be found in the job.
func (m *Machine) askRules(it *appendingJob, qr *queueRules, now leaky.Instant) (rc *ruleCharges, invalid error) {
	if it.rules != qr { // the rules have changed since, which is rare
		it.findAsks(qr)
	}
	if it.asksErr != nil {
		return nil, it.asksErr
	}
	rc = &ruleCharges{answers: make([]rules.Ruling, 0, len(it.asks))}
	for i := range it.asks {
		ask := &it.asks[i]
		c := ruleCharge{
			rule: m.rules[ask.Rule.Name], key: it.askKeys[i], limit: ask.Limiter, ask: leaky.Ask{Cost: it.job.Cost},
		}
		says := m.peekRule(&c, now)
		says.Rule, says.Shadow = ask.Rule.Name, ask.Rule.Action == rules.Shadow
		rc.answers = append(rc.answers, says)
		if says.Allowed {
			rc.charges = append(rc.charges, c)
		}
	}
	return rc, nil
}

func (m *Machine) peekRule(c *ruleCharge, now leaky.Instant) rules.Ruling {
	t, refused := m.tallyToAsk(c.rule, c.key, c.limit, now)
	if refused != nil {
		return rules.Ruling{Decision: *refused, MaxKeys: c.rule.keyLimit}
	}
	if t != nil {
		s := t.stateFor(c.limit)
		says := s.Peek(now, c.ask)
		if !says.Allowed {
			s.Take(now, c.ask)
			m.keepCorrected(t, s, c.limit, now)
		}
		return rules.Ruling{Decision: says}
	}
	return rules.Ruling{Decision: c.limit.Fresh().Peek(now, c.ask)}
}

// limitedByRules returns the outcome of a job that a rule refuses, including a rule of another group that was asked
// before. A refused job takes nothing from any rule.
func (m *Machine) limitedByRules(
	it *appendingJob, q *queueState, qr *queueRules, rc *ruleCharges, now leaky.Instant,
) (outcome queue.AppendOutcome, refused bool) {
	_, wait, refused := rules.Limited(it.answer.Rules)
	if !refused && it.job.Limited <= 0 {
		return 0, false
	}
	if rc != nil {
		rc.charges = nil
	}
	if it.offered && it.job.Overflow != queue.Reject && qr.allDefer(it.answer.Rules) {
		return m.overflowOutcome(q, it.bytes(), now), true
	}
	it.answer.RetryAfter = max(minRetry, wait, it.job.Limited)
	return queue.LimitReached, true
}

// allDefer reports whether every rule that refuses the job wants it deferred.
func (qr *queueRules) allDefer(said []rules.Ruling) bool {
	for i := range said {
		if said[i].Allowed || said[i].Shadow {
			continue
		}
		for _, r := range qr.rules {
			if r.Name == said[i].Rule && r.Action != rules.Defer {
				return false
			}
		}
	}
	return true
}

// chargeRules takes the cost of a job from its rules, in the same commit as the job.
func (m *Machine) chargeRules(rc *ruleCharges, now leaky.Instant) {
	if rc == nil {
		return
	}
	for i := range rc.charges {
		c := &rc.charges[i]
		t := m.tallyOf(c.rule.tallies, c.key, now)
		s := t.stateFor(c.limit)
		m.noteCharge(t, s, c.limit, c.ask, now)
		s.Take(now, c.ask)
		t.setState(s, c.limit, now)
		m.insertTally(t)
		m.addTally(t)
	}
	m.forgetExpiredTallies(now, 2*len(rc.charges))
}

func (rc *ruleCharges) said() []rules.Ruling {
	if rc == nil {
		return nil
	}
	return rc.answers
}

// A job takes from its rules in the same commit that adds it. If that commit fails, what it took counts as never asked
// for, whatever others took meanwhile. So until the commit is durable, the machine can compute the tally without it.

// chargedTally is what it takes to compute a tally without the charges that are not durable.
type chargedTally struct {
	before leaky.Tally // without ops
	ops    []tallyOp   // the first charge that is not durable, and all later ops
}

type tallyKey struct {
	set *tallySet
	key queue.LaneDigest
}

// tallyOp is a change of a tally.
type tallyOp struct {
	at     leaky.Instant
	op     rules.TakeOp
	ask    leaky.Ask
	by     leaky.Limiter
	commit uint64 // of a charge that is not durable; else 0
}

func (o *tallyOp) applyTo(s leaky.Tally) leaky.Tally {
	switch o.op {
	case rules.TakeBack:
		s.Refund(o.at, o.ask)
	case rules.TakeAnew:
		return o.by.Fresh()
	default:
		s.Take(o.at, o.ask)
	}
	return s
}

// noteCharge notes what a job is about to take from a tally.
func (m *Machine) noteCharge(t *tally, s leaky.Tally, by leaky.Limiter, ask leaky.Ask, now leaky.Instant) {
	k, c := tallyKey{t.set, t.digest}, m.current
	g := m.charged[k]
	if g == nil {
		g = &chargedTally{before: s.Clone()}
		m.charged[k] = g
	}
	if n := len(g.ops); n == 0 || g.ops[n-1].commit != c.Number {
		c.charged = append(c.charged, k)
	}
	g.ops = append(g.ops, tallyOp{now, rules.TakeNow, ask, by, c.Number})
}

// noteTake notes what is taken from a tally by name, or given back, if the tally has charges that are not durable.
func (m *Machine) noteTake(
	set *tallySet, key queue.LaneDigest, op rules.TakeOp, by leaky.Limiter, ask leaky.Ask, now leaky.Instant,
) {
	if g := m.charged[tallyKey{set, key}]; g != nil {
		g.ops = append(g.ops, tallyOp{now, op, ask, by, 0})
	}
}

func (m *Machine) chargesDurable(c *Commit) {
	for _, k := range c.charged {
		g := m.charged[k]
		if g == nil {
			continue
		}
		for i := range g.ops {
			if g.ops[i].commit <= c.Number {
				g.ops[i].commit = 0
			}
		}
		first := slices.IndexFunc(g.ops, func(o tallyOp) bool { return o.commit != 0 })
		if first < 0 {
			delete(m.charged, k)
			continue
		}
		for i := range g.ops[:first] {
			g.before = g.ops[i].applyTo(g.before)
		}
		g.ops = slices.Delete(g.ops, 0, first)
	}
}

// withoutCharges returns the state of a tally without the charges that are not durable, and the limiter that reads it.
func (t *chargedTally) withoutCharges() (s leaky.Tally, by leaky.Limiter) {
	s = t.before.Clone()
	for i := range t.ops {
		by = t.ops[i].by
		if t.ops[i].commit == 0 {
			s = t.ops[i].applyTo(s)
		}
	}
	return s, by
}
