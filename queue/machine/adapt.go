package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// adaptedRate is a rate that follows what the receiver accepts. It is immutable.
type adaptedRate struct {
	rule leaky.Adapt
	base leaky.Rate // the rate of the spec
	leaky.Adapted
	log []queue.RateChange // newest first
}

// adaptedRateOf returns the adapted rate of a spec, or nil if the spec does not adapt. It returns before if neither the
// rate nor the bounds changed.
func adaptedRateOf(s *queue.Spec, before *adaptedRate, now leaky.Instant) *adaptedRate {
	if !s.Adapt.On() {
		return nil
	}
	a := &adaptedRate{rule: s.Adapt.Rule(), base: s.Rate}
	if before == nil {
		a.Adapted = a.rule.Begin(a.base)
		return a
	}
	if before.rule == a.rule && before.base == a.base {
		return before
	}
	a.Adapted, a.log = a.rule.Begin(a.base), before.log
	if a.Rate != before.Rate {
		a.note(queue.RateChange{At: now.Time(), From: before.Rate, To: a.Rate, Cause: queue.AdaptedPut})
	}
	return a
}

func (a *adaptedRate) note(n queue.RateChange) { a.log = noteRateChange(slices.Clone(a.log), n) }

func (a *adaptedRate) pace(p leaky.Pacer) leaky.Pacer {
	if a != nil {
		p.Rate = a.Rate
	}
	return p
}

type rateSignal struct {
	refused bool
	taken   bool // accepted, while the rate kept other jobs waiting, see adapting.held
	reason  string
}

// rateSignal returns what a settlement says about the rate. Jobs that came back in the same call do not count: the rate
// does not hold them up.
func (q *queueState) rateSignal(s *queue.Settlement, keyed bool, a *adapting) (signal rateSignal) {
	switch {
	case q.adapted == nil:
	case s.Verdict == queue.Throttle && !s.NoTarget && !(s.LaneOnly && keyed):
		signal.refused, signal.reason = true, strings.Clone(clip.Text(s.Reason, queue.MaxReasonBytes))
	// A delivery that asks for a wait says neither "more" nor "less".
	case s.Verdict == queue.Deliver && s.After <= 0:
		signal.taken = a.held && q.counts[queue.Waiting] > a.cameBack
	}
	return signal
}

// after returns the adapted rate after a signal, or a itself if the signal changes nothing.
func (a *adaptedRate) after(signal rateSignal, departed, now leaky.Instant) *adaptedRate {
	next := *a
	cause := queue.AdaptedDelivered
	var changed bool
	switch {
	case signal.refused:
		cause, changed = queue.AdaptedThrottled, a.rule.Refused(&next.Adapted, departed, now)
	case signal.taken:
		changed = a.rule.Taken(&next.Adapted, departed, now)
	}
	if changed {
		next.note(queue.RateChange{At: now.Time(), From: a.Rate, To: next.Rate, Cause: cause, Reason: signal.reason})
	}
	if next.Adapted == a.Adapted {
		return a
	}
	return &next
}

// setAdaptedRate sets the rate of a queue and recomputes its next departure.
func (m *Machine) setAdaptedRate(q *queueState, to *adaptedRate, now leaky.Instant) {
	q.adapted = to
	m.touch(q).putAdapted(q.number, to)
	next := to.pace(q.pacer)
	if next == q.pacer {
		return
	}
	q.ceiling.next.tat = q.stretchedCeiling(q.ceiling.next.tat, next, now)
	q.ceiling.commit = m.current.Number
	m.holdGrants(heldGrants{queue: q})
	q.bucket = q.pacer.Change(q.bucket, next, now)
	q.pacer = next
	m.rearm(q, now)
	if q.isParent() {
		m.rearmGroup(q.group, now)
		m.wakeClaims(q.group, now)
	}
	m.wakeForQueue(q, now)
}

func (a *adaptedRate) fields() []any {
	return []any{&a.Rate, &a.Level, &a.Peak, &a.Run, &a.Changed, &a.Lowered}
}

func (a *adaptedRate) encode() ([]byte, error) {
	text, err := json.Marshal(a.log)
	return append(encode(a.fields()...), text...), err
}

// decode reads a's state. Its rule comes from the spec.
func (a *adaptedRate) decode(b []byte) error {
	text, err := decode(b, "rate", a.fields()...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &a.log); err != nil {
		return fmt.Errorf("%w: changes of a rate: %w", queue.ErrCorrupt, err)
	}
	for i, n := range a.log {
		a.log[i].At = time.UnixMicro(n.At.UnixMicro()) // as Instant.Time returns it
	}
	return nil
}

// noteRateChange prepends a change to a list, newest first, and truncates the list. Consecutive increases are merged
// into one entry.
func noteRateChange(list []queue.RateChange, n queue.RateChange) []queue.RateChange {
	if len(list) > 0 && n.Cause == queue.AdaptedDelivered && list[0].Cause == queue.AdaptedDelivered {
		n.From = list[0].From
		list = list[1:]
	}
	list = append([]queue.RateChange{n}, list...)
	return list[:min(len(list), queue.MaxRateChanges)]
}
