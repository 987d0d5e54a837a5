package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// openTakes are the takes that can be corrected. They are not stored: after a restart their charges stand. Beyond
// mostOpenTakes the oldest are forgotten.
type openTakes struct {
	byID  map[queue.LaneDigest]openTake // by the digest of the id
	order chunkList[queue.LaneDigest]   // in order of the takes
}

// mostOpenTakes keeps them below 64 MiB.
const mostOpenTakes = 500_000

type openTake struct {
	set     uint64 // the number of the tally set, which a reset of the rule replaces
	key     queue.LaneDigest
	at      leaky.Instant
	charged int64
	done    bool // it was corrected
}

func (o *openTakes) add(id queue.LaneDigest, t openTake) {
	if o.byID == nil {
		o.byID = map[queue.LaneDigest]openTake{}
	}
	if o.order.n >= mostOpenTakes {
		o.drop(1)
	}
	o.byID[id] = t
	o.order.add(id)
}

func (o *openTakes) drop(n int) {
	for _, id := range o.order.take(n) {
		delete(o.byID, id)
	}
}

// forget forgets up to limit takes that can no longer be corrected.
func (o *openTakes) forget(now leaky.Instant, limit int) {
	for ; limit > 0 && o.order.n > 0; limit-- {
		if !o.byID[o.order.chunks[0][0]].over(now) {
			return
		}
		o.drop(1)
	}
	if o.order.n == 0 {
		o.byID = nil // a map never shrinks
	}
}

func (t openTake) over(now leaky.Instant) bool { return now > t.at.Add(rules.CorrectFor) }

// noteOpenTake notes an allowed take, if it can be corrected.
func (m *Machine) noteOpenTake(r *rule, key queue.LaneDigest, ask leaky.Ask, now leaky.Instant) {
	if r.Unit != "" {
		m.openTakes.add(
			queue.DigestLane(ask.Lease), openTake{set: r.tallies.number, key: key, at: now, charged: ask.Cost},
		)
	}
}

// correctTake charges the actual cost of an earlier take, unless it was corrected before. ask has the id and the cost.
func (m *Machine) correctTake(
	r *rule, key queue.LaneDigest, l leaky.Limiter, ask leaky.Ask, now leaky.Instant,
) (a rules.Taken) {
	id := queue.DigestLane(ask.Lease)
	open, known := m.openTakes.byID[id]
	if !known || open.set != r.tallies.number || open.key != key || open.over(now) {
		return rules.Taken{Err: rules.UnknownTake(ask.Lease)}
	}
	t := m.tallyAt(r.tallies, key, now)
	s := l.Fresh()
	if t != nil {
		s = t.stateFor(l)
	}
	c, ok := s.(leaky.Corrector)
	if open.done || !ok {
		a.Decision = s.Peek(now, oneMore)
		return a
	}
	open.done = true
	m.openTakes.byID[id] = open
	a.Decision = c.Correct(now, leaky.Correction{At: open.at, Charged: open.charged, Actual: ask.Cost})
	if t == nil {
		if s.Expires(now) <= now {
			return a
		}
		t = m.newTally(r.tallies, key)
	}
	t.setState(s, l, now)
	m.keepTally(t, now)
	return a
}

// keepTally keeps a tally that has changed, or forgets it if it is as unused.
func (m *Machine) keepTally(t *tally, now leaky.Instant) {
	if t.expired(now) {
		m.forgetTally(t)
		m.unsaved = true
		return
	}
	m.checkSooner(t)
	m.markDirty(t)
}
