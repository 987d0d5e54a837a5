package machine

import (
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// Take asks a rule, and returns the commit that the answers wait for. That is 0, unless entry is set: the takes are
// then recorded in the audit log, in the same commit as their changes. Other takes are kept by SaveTallies. While the
// rule itself is not durable, nothing is taken and taken is nil; call Take again after the returned commit. keys are
// the digests of the keys. Errors: rules.ErrUnknown.
func (m *Machine) Take(
	now leaky.Instant, name string, takes []rules.Take, keys []queue.LaneDigest, entry *audit.Entry,
) (taken []rules.Taken, wait uint64, err error) {
	r, err := m.ruleNamed(name)
	if err != nil {
		return nil, 0, err
	}
	if n := m.countOwed(); entry != nil && n >= maxOwedTakes {
		return nil, 0, fmt.Errorf("%w: %d entries of the audit log are waiting for room", queue.ErrStoreFull, n)
	}
	if wait := m.unlessDurable(r.commit); wait != 0 {
		return nil, wait, nil
	}
	m.forgetExpiredTallies(now, expiredTalliesMax+2*len(takes))
	m.openTakes.forget(now, 2*len(takes))
	taken = make([]rules.Taken, len(takes))
	var touched []*tally
	for i := range takes {
		if entry != nil {
			if t := r.tallies.find(keys[i]); t != nil {
				touched = append(touched, t) // the take may remove it
			}
		}
		taken[i] = m.takeOne(r, takes[i], keys[i], now)
		taken[i].Shadow = taken[i].Err == nil && r.Action == rules.Shadow
	}
	if entry != nil {
		wait = m.auditTakes(entry, r, keys, taken, touched, now)
	}
	return taken, wait, nil
}

// auditTakes keeps the audit entry of refunds or resets in one commit with them, and returns that commit; 0 if all
// failed. touched are the tallies before the takes.
func (m *Machine) auditTakes(
	entry *audit.Entry, r *rule, keys []queue.LaneDigest, taken []rules.Taken, touched []*tally, now leaky.Instant,
) (wait uint64) {
	n := 0
	for i := range taken {
		if taken[i].Err != nil {
			continue
		}
		n++
		if t := m.tallyAt(r.tallies, keys[i], now); t != nil {
			touched = append(touched, t)
		}
	}
	if n == 0 {
		return 0
	}
	entry.Detail = ruleset.OfKeys(n)
	m.owed = append(m.owed, owedTakes{audited{entry: *entry}, touched})
	return m.wait()
}

// owedTakes is an audit entry about takes, and the tallies that they changed or removed. Memory has changed already,
// and the takes are answered even if the store is full: the next commit that succeeds keeps both.
type owedTakes struct {
	audited
	tallies []*tally
}

const maxOwedTakes = 100

// countOwed returns how many entries of the audit log are not durable yet. Entries in commits under way count too: a
// commit that fails gives them back.
func (m *Machine) countOwed() int {
	n := len(m.owed)
	for _, c := range m.taken {
		n += len(c.owed)
	}
	return n
}

// writeOwed adds the owed entries to a commit.
func (m *Machine) writeOwed(c *Commit) {
	c.owed, m.owed = m.owed, nil
	for i := range c.owed {
		c.audited = append(c.audited, c.owed[i].audited)
		for _, t := range c.owed[i].tallies {
			switch {
			case t.gone && t.onFile:
				c.dropTally(t.number)
			case t.dirty && !t.inCommit && !t.gone:
				c.tallies = append(c.tallies, t)
			}
		}
	}
}

func (m *Machine) takeOne(r *rule, take rules.Take, key queue.LaneDigest, now leaky.Instant) rules.Taken {
	l := r.limiterFor(take.Key)
	ask, err := r.Ask(take, l)
	if err != nil {
		return rules.Taken{Err: err}
	}
	if take.Op == rules.TakeCorrect {
		return m.correctTake(r, key, l, ask, now)
	}
	a := m.decideTake(r, take.Op, key, l, ask, now)
	if take.Op == rules.TakeNow && a.Allowed {
		r.SetID(&a, ask)
		m.noteOpenTake(r, key, ask, now)
	}
	if err := r.Never(ask, l, &a.Decision); err != nil {
		return rules.Taken{Err: err}
	}
	return a
}

func (m *Machine) decideTake(
	r *rule, op rules.TakeOp, key queue.LaneDigest, l leaky.Limiter, ask leaky.Ask, now leaky.Instant,
) (a rules.Taken) {
	var t *tally
	if op == rules.TakePeek || op == rules.TakeNow {
		var refused *leaky.Decision
		if t, refused = m.tallyToAsk(r, key, l, now); refused != nil {
			return rules.Taken{Decision: *refused, MaxKeys: r.keyLimit}
		}
	} else {
		t = m.tallyAt(r.tallies, key, now)
	}
	if t == nil {
		return m.takeFirst(r, key, op, l, ask, now)
	}
	s := t.stateFor(l)
	switch op {
	case rules.TakePeek:
		a.Decision = s.Peek(now, ask)
		return a
	case rules.TakeNow:
		if a.Decision = s.Take(now, ask); !a.Allowed {
			m.keepCorrected(t, s, l, now)
			return a
		}
	case rules.TakeBack:
		a.Decision = s.Refund(now, ask)
	case rules.TakeAnew:
		s = l.Fresh()
		a.Decision = s.Peek(now, oneMore)
	}
	t.setState(s, l, now)
	m.noteTake(r.tallies, key, op, l, ask, now)
	m.keepTally(t, now)
	return a
}

// keepCorrected stores a state that a refusal has corrected, after the rule's numbers changed: what lies further ahead
// than the new numbers allow drains from now on. Otherwise each refusal would correct it again.
func (m *Machine) keepCorrected(t *tally, s leaky.Tally, l leaky.Limiter, now leaky.Instant) {
	if t.differs(s, l) {
		t.setState(s, l, now)
		m.markDirty(t)
	}
}

// oneMore asks for a cost of one, for concurrency under an unused name.
var oneMore = leaky.Ask{Cost: 1, Lease: "\x00"}

// takeFirst answers for a key from which nothing was taken.
func (m *Machine) takeFirst(
	r *rule, key queue.LaneDigest, op rules.TakeOp, l leaky.Limiter, ask leaky.Ask, now leaky.Instant,
) (a rules.Taken) {
	fresh := l.Fresh()
	switch op {
	case rules.TakePeek:
		a.Decision = fresh.Peek(now, ask)
	case rules.TakeNow:
		if a.Decision = fresh.Take(now, ask); a.Allowed {
			t := m.newTally(r.tallies, key)
			t.setState(fresh, l, now)
			m.noteTake(r.tallies, key, op, l, ask, now)
			m.markDirty(t)
		}
	default:
		a.Decision = fresh.Peek(now, oneMore)
	}
	return a
}

// Attend notes that a process takes part in admission, and returns how many do. That is not stored: no process outlives
// the engine's. Errors: an *invalid.Error.
func (m *Machine) Attend(now leaky.Instant, process string) (int, error) {
	if err := ruleset.ValidateProcess(process); err != nil {
		return 0, err
	}
	m.attending[process] = now
	for other, at := range m.attending {
		if now.Sub(at) > queue.AttendFor {
			delete(m.attending, other)
		}
	}
	return len(m.attending), nil
}
