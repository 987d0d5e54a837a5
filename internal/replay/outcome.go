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
	Key      string `json:"key"` // its key template; empty if all requests share one key
	Requests int64  `json:"requests"`
	// WithoutKey is the number of further requests without the key, which the rule could not count.
	WithoutKey int64   `json:"without_key"`
	Keys       int64   `json:"keys"`
	Allowed    int64   `json:"allowed"`
	Refused    int64   `json:"refused"`
	Share      float64 `json:"share_refused"`
	// Never is the number of refused requests that cost more than the rule ever allows.
	Never int64 `json:"can_never_pass"`
	// KeysRefused is the number of keys refused at least once.
	KeysRefused int64         `json:"keys_refused"`
	LongestWait unit.Duration `json:"longest_wait"`
	// Bursts are the greatest costs allowed in spans of different lengths, over all keys.
	Bursts []Burst `json:"worst_bursts"`
	// Own is the greatest burst of a single key in the rule's own span.
	Own Burst `json:"worst_burst_of_a_key"`
	// Top has the keys refused most often, then those that asked most.
	Top []KeyOutcome `json:"top_keys"`
}

// Burst is the greatest cost in any span of one length. At is the start of the span.
type Burst struct {
	Span    unit.Duration `json:"span"`
	Key     string        `json:"key,omitempty"`
	Asked   int64         `json:"asked"`
	Allowed int64         `json:"allowed"`
	At      time.Time     `json:"at,omitzero"`
}

// KeyOutcome is the outcome for one key. Its bursts are in the rule's own span.
type KeyOutcome struct {
	Key          string `json:"key"`
	Requests     int64  `json:"requests"`
	Allowed      int64  `json:"allowed"`
	Refused      int64  `json:"refused"`
	BurstAsked   int64  `json:"burst_asked"`
	BurstAllowed int64  `json:"burst_allowed"`
}

// maxTop is the maximum number of keys in Top.
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
	var most KeyOutcome // the key with the worst burst
	top := make([]KeyOutcome, 0, 2*maxTop)
	for i := range t.keys {
		if t.keys[i].cost == 0 {
			continue // from another log, or another template
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

// topKeys returns the keys that were refused most often.
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
