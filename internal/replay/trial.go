package replay

import (
	"strconv"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
)

// spans are the widths of the windows measured for every rule, besides the rule's own.
var spans = []time.Duration{time.Second, 10 * time.Second, time.Minute}

// Rule is a rule to try, with the key of the log by which it counts.
type Rule struct {
	rules.Rule
	Label string
	Key   *string // a template of the log's fields; nil means remote_addr for combined logs, and one key for all others
}

// trial is a rule being tried.
type trial struct {
	rule    *Rule
	ring    int
	limiter leaky.Limiter
	own     leaky.Instant // the width of the rule's own window
	lease   bool

	keys     []keyState
	repeats  int64 // number of repeated keys
	counted  int64 // requests of the repeated keys
	slots    int64 // slots of their windows, including free ones
	live     int   // keys with a state
	sweepAt  int
	requests int64
	refused  int64
	never    int64
	longest  time.Duration
	bursts   []window // over all keys, by spans
}

// keyState is the state of one key. Most keys of a large log occur once, and their state follows from that request;
// only repeated keys keep more.
type keyState struct {
	at      leaky.Instant // of the first request
	more    *repeatedKey  // nil until there is a second
	cost    int32         // of the first, or 0
	refused bool          // the first
}

// repeatedKey is the further state of a repeated key.
type repeatedKey struct {
	tally          leaky.Tally // nil if it equals a fresh one
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

// ownSpan returns the period of a rule that has one, or else the unit of time in which its rate is at least 1.
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

// take asks the rule, and reports whether it allows the request.
func (t *trial) take(r *request, names []string) bool {
	number := r.keys[t.ring]
	for len(t.keys) <= int(number) {
		t.keys = append(t.keys, keyState{})
	}
	ask := leaky.Ask{Cost: int64(r.cost)}
	if t.lease { // a log does not show when a request ended
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

// repeated returns the further state of a key that occurred before.
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

// sweep forgets the states that equal fresh ones, except for one key.
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
