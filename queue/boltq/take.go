package boltq

import (
	"context"
	"errors"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/ruleset"
)

// maxOwedAudit is how many entries of the audit log may wait for a commit that has room for them.
const maxOwedAudit = 1000

var errAuditOwed = errors.New("the audit log has no room for what is given back or forgotten")

// Take implements queue.Rules. What it takes is on file within a second, and at Close.
func (e *Engine) Take(ctx context.Context, name string, takes []queue.Take) ([]queue.Taken, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := ruleset.CheckTakes(len(takes)); err != nil {
		return nil, err
	}
	keys := make([]queue.LaneDigest, len(takes)) // outside the mutex
	for i := range takes {
		keys[i] = queue.DigestLane(takes[i].Key)
	}
	entry, err := ruleset.Audited(ctx, name, takes)
	if err != nil {
		return nil, err
	}
	taken, c, err := e.decideTakes(name, takes, keys, entry)
	if err != nil || c == nil {
		return taken, err
	}
	if err := c.await(ctx); err != nil {
		return nil, err
	}
	// An entry that there was no room for goes with the next commit: that is no later than what was taken.
	if c.err != nil && !errors.Is(c.err, queue.ErrStoreFull) {
		return nil, c.err
	}
	return taken, nil
}

// decideTakes answers questions, and has the entry written that they leave, if they do, by a call that is to be waited
// for.
func (e *Engine) decideTakes(
	name string, takes []queue.Take, keys []queue.LaneDigest, entry *queue.AuditEntry,
) ([]queue.Taken, *call, error) {
	e.lock()
	defer e.unlock()
	if err := e.usable(); err != nil {
		return nil, nil, err
	}
	now := e.now()
	r, err := e.liveRule(name)
	if err != nil {
		return nil, nil, err
	}
	if entry != nil && len(e.owedAudit) >= maxOwedAudit {
		return nil, nil, errStoreFull(e.path, errAuditOwed)
	}
	e.forgetExpiredTallies(now, expiredTalliesMax+2*len(takes))
	taken := make([]queue.Taken, len(takes))
	var touched []*tally // those that takes may remove
	for i := range takes {
		if entry != nil {
			if t := r.tallies.find(keys[i]); t != nil {
				touched = append(touched, t)
			}
		}
		taken[i] = e.takeOne(r, takes[i], keys[i], now)
		taken[i].Shadow = taken[i].Err == nil && r.Action == queue.Shadow
	}
	if entry == nil {
		return taken, nil, nil
	}
	return taken, e.auditTakes(entry, r, keys, taken, touched, now), nil
}

// auditTakes has the entry of takes that were given back or forgotten written in one commit with them; nil if none
// were. touched are the tallies that there were.
func (m *machine) auditTakes(
	entry *queue.AuditEntry, r *rule, keys []queue.LaneDigest, taken []queue.Taken, touched []*tally, now leaky.Instant,
) *call {
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
		return nil
	}
	entry.Detail = ruleset.OfKeys(n)
	m.owedAudit = append(m.owedAudit, owedAudit{audited{entry: *entry}, touched})
	c := newCall()
	m.enqueue(c, &owedChange{fileChange{c}})
	return c
}

// owedAudit is an entry of takes, and the tallies that they changed or removed: memory has changed already, and the
// file changes by the next commit, in one step with the entry.
type owedAudit struct {
	audited
	tallies []*tally
}

func (o *owedAudit) addTo(b *batch) {
	b.audited = append(b.audited, o.audited)
	for _, t := range o.tallies {
		switch {
		case t.gone && t.onFile:
			b.dropTally(t.number)
		case t.dirty:
			b.addTally(t)
		}
	}
}

// owedChange has a commit made for what is owed.
type owedChange struct{ fileChange }

func (*owedChange) freesSpace() bool { return false }

func (m *machine) takeOne(r *rule, take queue.Take, key queue.LaneDigest, now leaky.Instant) queue.Taken {
	l := r.limiterFor(take.Key)
	ask, err := r.Ask(take, l)
	if err != nil {
		return queue.Taken{Err: err}
	}
	a := m.decideTake(r, take.Op, key, l, ask, now)
	if err := r.Never(ask, l, &a.Decision); err != nil {
		return queue.Taken{Err: err}
	}
	return a
}

func (m *machine) decideTake(
	r *rule, op queue.TakeOp, key queue.LaneDigest, l leaky.Limiter, ask leaky.Ask, now leaky.Instant,
) (a queue.Taken) {
	t := m.tallyAt(r.tallies, key, now)
	if t == nil {
		return m.takeFirst(r, key, op, l, ask, now)
	}
	s := t.stateFor(l)
	switch op {
	case queue.TakePeek:
		a.Decision = s.Peek(now, ask)
		return a
	case queue.TakeNow:
		if a.Decision = s.Take(now, ask); !a.Allowed {
			m.keepCorrected(t, s, l, now)
			return a
		}
		a.Lease = ask.Lease
	case queue.TakeBack:
		a.Decision = s.Refund(now, ask)
	case queue.TakeAnew:
		s = l.Fresh()
		a.Decision = s.Peek(now, oneMore)
	}
	t.setStateBy(s, l, tallyOp{at: now, op: op, ask: ask})
	if t.expired(now) {
		m.forgetTally(t)
		m.toSave = true
		return a
	}
	m.checkSooner(t)
	m.markDirty(t)
	return a
}

// keepCorrected stores a state that a refusal has corrected, after the rule's numbers changed: what lies further
// ahead than the new ones allow drains from now on. Otherwise it would be found anew each time.
func (m *machine) keepCorrected(t *tally, s leaky.Tally, l leaky.Limiter, now leaky.Instant) {
	if t.differs(s, l) {
		t.setState(s, l, now)
		m.markDirty(t)
	}
}

// oneMore asks for one; of concurrency under a name that nobody has.
var oneMore = leaky.Ask{Cost: 1, Lease: "\x00"}

// takeFirst answers for a key from which nothing was taken.
func (m *machine) takeFirst(
	r *rule, key queue.LaneDigest, op queue.TakeOp, l leaky.Limiter, ask leaky.Ask, now leaky.Instant,
) (a queue.Taken) {
	fresh := l.Fresh()
	if op == queue.TakePeek || op == queue.TakeNow {
		if no := m.noRoom(r, key, l, now); no != nil {
			return queue.Taken{Decision: *no, MaxKeys: r.keyLimit}
		}
	}
	switch op {
	case queue.TakePeek:
		a.Decision = fresh.Peek(now, ask)
	case queue.TakeNow:
		if a.Decision = fresh.Take(now, ask); a.Allowed {
			a.Lease = ask.Lease
			t := newTally(r.tallies, key)
			t.setState(fresh, l, now)
			m.markDirty(t)
		}
	default:
		a.Decision = fresh.Peek(now, oneMore)
	}
	return a
}

// Attend implements queue.Rules. Who attends is not on file: nobody outlives the process.
func (e *Engine) Attend(ctx context.Context, process string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := ruleset.ValidateProcess(process); err != nil {
		return 0, err
	}
	e.lock()
	defer e.unlock()
	if err := e.usable(); err != nil {
		return 0, err
	}
	now := e.now()
	e.attending[process] = now
	for other, at := range e.attending {
		if now.Sub(at) > queue.AttendFor {
			delete(e.attending, other)
		}
	}
	return len(e.attending), nil
}
