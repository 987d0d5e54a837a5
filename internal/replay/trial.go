package replay

import (
	"strconv"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
)

// spans are the widths of the windows that every rule is judged by, beside one of its own.
var spans = []time.Duration{time.Second, 10 * time.Second, time.Minute}

// Rule is what is tried: a rule, and by what of the log it counts.
type Rule struct {
	rules.Rule
	Label string
	Key   *string // a template of the log's fields; nil is remote_addr of combined logs, all under one key of others
}

// trial is a rule at work.
type trial struct {
	rule    *Rule
	ring    int
	limiter leaky.Limiter
	own     leaky.Instant // the width of the rule's own window
	lease   bool

	keys     []keyState
	repeats  int64 // keys that came again
	counted  int64 // requests of those
	slots    int64 // of their windows, with those that are free
	live     int   // keys with a state
	sweepAt  int
	requests int64
	refused  int64
	never    int64
	longest  time.Duration
	bursts   []window // of all keys together, by spans
}

// keyState is what became of one key. Most keys of a great log come once: what their state would be is known from that
// request, and more is kept of the others only.
type keyState struct {
	at      leaky.Instant // of the first request
	more    *repeatedKey  // nil until there is a second
	cost    int32         // of the first, 0 if there is none
	refused bool          // the first
}

// repeatedKey is what became of a key that came again.
type repeatedKey struct {
	tally          leaky.Tally // nil if it is as a fresh one
	asked, refused int64
	burst          window
}

func newTrial(r *Rule, ring int) (*trial, error) {
	l, err := r.Limiter(r.Algorithm)
	if err != nil {
		return nil, err
	}
	return &trial{
		rule: r, ring: ring, limiter: l, own: leaky.Instant(ownSpan(r).Microseconds()),
		lease:   r.Algorithm == leaky.AlgorithmConcurrency,
		sweepAt: 4096, bursts: make([]window, len(spans)),
	}, nil
}

// ownSpan is the period of a rule that has one, else the unit of time in which its rate is at least 1.
func ownSpan(r *Rule) time.Duration {
	switch {
	case r.Period > 0:
		return r.Period.D()
	case r.TTL > 0:
		return r.TTL.D()
	}
	for _, unit := range []time.Duration{time.Second, time.Minute, time.Hour} {
		if r.Rate.Interval() <= unit {
			return unit
		}
	}
	return 24 * time.Hour
}

// take asks the rule, and reports whether it allows.
func (t *trial) take(r *request, names []string) bool {
	number := r.keys[t.ring]
	for len(t.keys) <= int(number) {
		t.keys = append(t.keys, keyState{})
	}
	ask := leaky.Ask{Cost: int64(r.cost)}
	if t.lease { // nobody knows when a request of a log had ended
		ask.Lease = strconv.FormatInt(t.requests, 10)
	}
	var d leaky.Decision
	if k := &t.keys[number]; k.cost == 0 {
		d = t.fresh(names[number]).Take(r.at, ask)
		k.at, k.cost, k.refused = r.at, r.cost, !d.Allowed
	} else {
		d = t.count(t.repeated(number, names[number], r.at), r.at, ask)
	}
	t.requests++
	allowed := ask.Cost
	if !d.Allowed {
		allowed = 0
		t.refused++
		t.longest = max(t.longest, d.RetryAfter)
		if ask.Cost > d.Limit {
			t.never++
		}
	}
	for i := range t.bursts {
		t.bursts[i].add(leaky.Instant(spans[i].Microseconds()), r.at, ask.Cost, allowed)
	}
	return d.Allowed
}

// repeated returns what is kept of a key that was asked about before, with a state.
func (t *trial) repeated(number uint32, name string, now leaky.Instant) *repeatedKey {
	k := &t.keys[number]
	if k.more == nil {
		k.more = &repeatedKey{}
		t.repeats++
		t.enter(k.more, number, name, now)
		t.count(k.more, k.at, leaky.Ask{Cost: int64(k.cost), Lease: "first"})
	}
	if k.more.tally == nil {
		t.enter(k.more, number, name, now)
	}
	return k.more
}

func (t *trial) enter(m *repeatedKey, number uint32, name string, now leaky.Instant) {
	m.tally = t.fresh(name)
	if t.live++; t.live >= t.sweepAt {
		t.sweep(now, number)
	}
}

// count asks, and counts for the key.
func (t *trial) count(m *repeatedKey, at leaky.Instant, ask leaky.Ask) leaky.Decision {
	d := m.tally.Take(at, ask)
	m.asked++
	t.counted++
	allowed := ask.Cost
	if !d.Allowed {
		allowed = 0
		m.refused++
	}
	had := cap(m.burst.slots)
	m.burst.add(t.own, at, ask.Cost, allowed)
	t.slots += int64(cap(m.burst.slots) - had)
	return d
}

func (t *trial) fresh(key string) leaky.Tally {
	if len(t.rule.Overrides) > 0 {
		if l, err := t.rule.Of(key).Limiter(t.rule.Algorithm); err == nil {
			return l.Fresh()
		}
	}
	return t.limiter.Fresh()
}

// sweep forgets the states that are as fresh ones, but for that of one key.
func (t *trial) sweep(now leaky.Instant, but uint32) {
	t.live = 0
	for i := range t.keys {
		m := t.keys[i].more
		if m == nil || m.tally == nil {
			continue
		}
		had := cap(m.burst.slots)
		if uint32(i) != but && m.tally.Expires(now) <= now && m.burst.forget(t.own, now) {
			t.slots -= int64(had)
			m.tally = nil
			continue
		}
		t.live++
	}
	t.sweepAt = max(4096, 2*t.live)
}
