package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock/penstock/queue/unit"
)

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
	KeysRefused int64         `json:"keys_refused"`
	LongestWait unit.Duration `json:"longest_wait"`
	// Bursts are the most that it let through, in units of cost, of all keys together, in any span of so long.
	Bursts []Burst `json:"worst_bursts"`
	// Own is that of a single key in the rule's own span.
	Own Burst `json:"worst_burst_of_a_key"`
	// Top are the keys that were refused most, then those that asked most.
	Top []KeyOutcome `json:"top_keys"`
}

// Burst is the most in any span of one length. At is when the span began.
type Burst struct {
	Span    unit.Duration `json:"span"`
	Key     string        `json:"key,omitempty"`
	Asked   int64         `json:"asked"`
	Allowed int64         `json:"allowed"`
	At      time.Time     `json:"at,omitzero"`
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
		Allowed: t.requests - t.refused, Refused: t.refused, Never: t.never, LongestWait: unit.Duration(t.longest),
	}
	if t.requests > 0 {
		o.Share = float64(t.refused) / float64(t.requests)
	}
	for i, w := range t.bursts {
		o.Bursts = append(o.Bursts, w.burst(spans[i]))
	}
	o.Own.Span = unit.Duration(time.Duration(t.own) * time.Microsecond)
	worst := -1
	var most KeyOutcome // of worst
	top := make([]KeyOutcome, 0, 2*maxTop)
	for i := range t.keys {
		if t.keys[i].cost == 0 {
			continue // another log's, or another template's
		}
		k := t.keys[i].outcome(ring.names[i])
		o.Keys++
		if worst < 0 || cmp.Or(
			cmp.Compare(k.BurstAllowed, most.BurstAllowed), cmp.Compare(k.BurstAsked, most.BurstAsked),
		) > 0 {
			worst, most = i, k
		}
		if k.Refused > 0 {
			o.KeysRefused++
		}
		if top = append(top, k); len(top) == cap(top) {
			top = topKeys(top)
		}
	}
	if worst >= 0 {
		o.Own = t.keys[worst].burst(o.Own.Span.D())
		o.Own.Key = ring.names[worst]
	}
	o.Top = topKeys(top)
	return o
}

func (k *keyState) outcome(name string) KeyOutcome {
	if m := k.more; m != nil {
		return KeyOutcome{name, m.asked, m.asked - m.refused, m.refused, m.burst.mostAsked, m.burst.worst}
	}
	if k.refused {
		return KeyOutcome{name, 1, 0, 1, int64(k.cost), 0}
	}
	return KeyOutcome{name, 1, 1, 0, int64(k.cost), int64(k.cost)}
}

func (k *keyState) burst(span time.Duration) Burst {
	if k.more != nil {
		return k.more.burst.burst(span)
	}
	w := window{mostAsked: int64(k.cost)}
	if !k.refused {
		w.worst, w.worstAt = w.mostAsked, k.at
	}
	return w.burst(span)
}

// topKeys keeps the keys that were hit most.
func topKeys(keys []KeyOutcome) []KeyOutcome {
	slices.SortStableFunc(keys, func(a, b KeyOutcome) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.Requests, a.Requests))
	})
	return keys[:min(len(keys), maxTop)]
}

func (w *window) burst(span time.Duration) Burst {
	b := Burst{Span: unit.Duration(span), Asked: w.mostAsked, Allowed: w.worst}
	if w.worst > 0 {
		b.At = w.worstAt.Time().UTC()
	}
	return b
}
