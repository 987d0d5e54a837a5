package replay

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// spans are the widths of the windows that every rule is judged by, beside one of its own.
var spans = []time.Duration{time.Second, 10 * time.Second, time.Minute}

// Rule is what is tried: a rule, and by what of the log it counts.
type Rule struct {
	queue.Rule
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

	keys     []tried
	live     int // keys with a state
	sweepAt  int
	requests int64
	refused  int64
	never    int64
	longest  time.Duration
	bursts   []window // of all keys together, by spans
}

// tried is what became of one key.
type tried struct {
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
		rule: r, ring: ring, limiter: l, own: leaky.Instant(ownSpan(r).Microseconds()), lease: r.Algorithm == leaky.AlgorithmConcurrency,
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
		t.keys = append(t.keys, tried{})
	}
	k := &t.keys[number]
	if k.tally == nil {
		k.tally = t.fresh(names[number])
		if t.live++; t.live >= t.sweepAt {
			t.sweep(r.at, number)
		}
	}
	ask := leaky.Ask{Cost: int64(r.cost)}
	if t.lease { // nobody knows when a request of a log had ended
		ask.Lease = strconv.FormatInt(t.requests, 10)
	}
	d := k.tally.Take(r.at, ask)
	t.requests++
	k.asked++
	allowed := ask.Cost
	if !d.Allowed {
		allowed = 0
		t.refused++
		k.refused++
		t.longest = max(t.longest, d.RetryAfter)
		if ask.Cost > d.Limit {
			t.never++
		}
	}
	k.burst.add(t.own, r.at, ask.Cost, allowed)
	for i := range t.bursts {
		t.bursts[i].add(leaky.Instant(spans[i].Microseconds()), r.at, ask.Cost, allowed)
	}
	return d.Allowed
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
		k := &t.keys[i]
		if k.tally == nil {
			continue
		}
		if uint32(i) != but && k.tally.Expires(now) <= now && k.burst.forget(t.own, now) {
			k.tally = nil
			continue
		}
		t.live++
	}
	t.sweepAt = max(4096, 2*t.live)
}

// Outcome is what a rule would have done.
type Outcome struct {
	Rule     string `json:"rule"`
	Key      string `json:"key"` // by what it counted; empty is all under one
	Requests int64  `json:"requests"`
	// WithoutKey is how many more requests there were, which it could not count.
	WithoutKey int64   `json:"without_key"`
	Keys       int64   `json:"keys"`
	Allowed    int64   `json:"allowed"`
	Refused    int64   `json:"refused"`
	Share      float64 `json:"share_refused"`
	// Never is how many of those refused cost more than the rule ever lets through.
	Never int64 `json:"can_never_pass"`
	// KeysRefused is how many keys were refused at least once.
	KeysRefused int64          `json:"keys_refused"`
	LongestWait queue.Duration `json:"longest_wait"`
	// Bursts are the most that it let through, in units of cost, of all keys together, in any span of so long.
	Bursts []Burst `json:"worst_bursts"`
	// Own is that of a single key in the rule's own span.
	Own Burst `json:"worst_burst_of_a_key"`
	// Top are the keys that were refused most, then those that asked most.
	Top []KeyOutcome `json:"top_keys"`
}

// Burst is the most in any span of one length. At is when the span began.
type Burst struct {
	Span    queue.Duration `json:"span"`
	Key     string         `json:"key,omitempty"`
	Asked   int64          `json:"asked"`
	Allowed int64          `json:"allowed"`
	At      time.Time      `json:"at,omitzero"`
}

// KeyOutcome is what became of one key. Its bursts are in the rule's own span.
type KeyOutcome struct {
	Key          string `json:"key"`
	Requests     int64  `json:"requests"`
	Allowed      int64  `json:"allowed"`
	Refused      int64  `json:"refused"`
	BurstAsked   int64  `json:"burst_asked"`
	BurstAllowed int64  `json:"burst_allowed"`
}

// maxTop is how many keys are named.
const maxTop = 10

func (t *trial) outcome(ring *keyring, withoutKey int64) Outcome {
	o := Outcome{
		Rule: t.rule.Label, Key: ring.text, Requests: t.requests, WithoutKey: withoutKey,
		Allowed: t.requests - t.refused, Refused: t.refused, Never: t.never, LongestWait: queue.Duration(t.longest),
	}
	if t.requests > 0 {
		o.Share = float64(t.refused) / float64(t.requests)
	}
	for i, w := range t.bursts {
		o.Bursts = append(o.Bursts, w.burst(spans[i]))
	}
	o.Own.Span = queue.Duration(time.Duration(t.own) * time.Microsecond)
	worst := -1
	top := make([]uint32, 0, 2*maxTop)
	for i := range t.keys {
		if t.keys[i].asked == 0 {
			continue // another log's, or another template's
		}
		o.Keys++
		if worst < 0 || cmp.Or(cmp.Compare(t.keys[i].burst.worst, t.keys[worst].burst.worst), cmp.Compare(t.keys[i].burst.mostAsked, t.keys[worst].burst.mostAsked)) > 0 {
			worst = i
		}
		if t.keys[i].refused > 0 {
			o.KeysRefused++
		}
		if top = append(top, uint32(i)); len(top) == cap(top) {
			top = t.most(top)
		}
	}
	if worst >= 0 {
		o.Own = t.keys[worst].burst.burst(o.Own.Span.D())
		o.Own.Key = ring.names[worst]
	}
	for _, i := range t.most(top) {
		k := &t.keys[i]
		o.Top = append(o.Top, KeyOutcome{ring.names[i], k.asked, k.asked - k.refused, k.refused, k.burst.mostAsked, k.burst.worst})
	}
	return o
}

// most keeps the keys that were hit most.
func (t *trial) most(keys []uint32) []uint32 {
	slices.SortStableFunc(keys, func(a, b uint32) int {
		x, y := &t.keys[a], &t.keys[b]
		return cmp.Or(cmp.Compare(y.refused, x.refused), cmp.Compare(y.asked, x.asked))
	})
	return keys[:min(len(keys), maxTop)]
}

func (w *window) burst(span time.Duration) Burst {
	b := Burst{Span: queue.Duration(span), Asked: w.mostAsked, Allowed: w.worst}
	if w.worst > 0 {
		b.At = w.worstAt.Time().UTC()
	}
	return b
}
