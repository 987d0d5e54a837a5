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
	rule leaky.Adapt // unless it learns
	// learns is the spec's Learn: the rate follows the receiver's budget. Then Changed is when that is renewed, and
	// Lowered when the job departed whose answer stated it.
	learns string
	base   leaky.Rate // the rate of the spec
	leaky.Adapted
	log []queue.RateChange // newest first
}

// adaptedRateOf returns the adapted rate of a spec, or nil if the spec does not adapt. It returns before if neither the
// rate nor the bounds changed.
func adaptedRateOf(s *queue.Spec, before *adaptedRate, now leaky.Instant) *adaptedRate {
	if !s.Adapts() {
		return nil
	}
	a := &adaptedRate{base: s.Rate, learns: s.Learn}
	if a.learns != "" {
		a.Rate = a.base
	} else {
		a.rule = s.Adapt.Rule()
		a.Adapted = a.rule.Begin(a.base)
	}
	switch {
	case before == nil:
		return a
	case before.rule == a.rule && before.base == a.base && before.learns == a.learns:
		return before
	}
	a.log = before.log
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
	case q.adapted == nil || q.adapted.learns != "":
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

// statedBudget is what an answer says of the receiver's budget.
type statedBudget struct {
	index    int // of the settlement
	queue    *queueState
	departed leaky.Instant
	queue.Budget
}

const (
	// sameRate is the part by which a learned rate must differ from the present one to replace it. Each change
	// recomputes when the queue can depart, and wakes drainers.
	sameRate = 1. / 16
	usedUp   = "the receiver's budget is used up"
)

// spread returns the rate at which so many departures are spread evenly over a time.
func (a *adaptedRate) spread(left int64, over time.Duration) leaky.Rate {
	n, d := max(1, left), over.Milliseconds()*1000+1000
	presentN, presentD := a.Rate.Fraction()
	baseN, baseD := a.base.Fraction()
	wanted, present := float64(d)/float64(n), float64(presentD)/float64(presentN)
	switch {
	case wanted <= float64(baseD)/float64(baseN):
		return a.base
	case wanted > present*(1-sameRate) && wanted < present*(1+sameRate):
		return a.Rate
	}
	return leaky.Ratio(n, d)
}

// learn lowers the rate of a queue so that the receiver's budget lasts until it is renewed, and restores it when there
// is enough or the time has passed. With nothing left the queue stops until then. Jobs still leased after this call
// are subtracted, because the receiver may not have counted them. It reports whether something changed.
func (m *Machine) learn(b *statedBudget, effect *queue.Effect, now leaky.Instant) bool {
	q, a := b.queue, b.queue.adapted
	next := *a
	switch reset := min(b.Reset, queue.MaxReset); {
	case reset <= 0 && (a.Changed == 0 || now < a.Changed) || reset > 0 && b.departed < a.Lowered:
		return false
	case reset <= 0:
		next.Rate, next.Changed = a.base, 0
	case b.Remaining <= 0:
		next.Rate, next.Changed, next.Lowered = a.base, now.Add(reset), b.departed
		if stopped := q.receiver.stopUntil(now.Add(reset), now, queue.StopThrottled, usedUp); stopped > 0 {
			effect.Stopped = max(effect.Stopped, stopped)
			m.rearmAndWake(q, now)
		}
	default:
		next.Changed, next.Lowered = now.Add(reset), b.departed
		next.Rate = a.spread(min(b.Remaining, queue.MaxRemaining)-q.counts[queue.Leased]-(q.pacer.Burst-1), reset)
	}
	if next.Rate != a.Rate {
		next.note(queue.RateChange{At: now.Time(), From: a.Rate, To: next.Rate, Cause: queue.AdaptedBudget})
		effect.From, effect.To = a.Rate, next.Rate
	}
	m.setAdaptedRate(q, &next, now)
	return true
}

func isSlower(c queue.RateChange) bool {
	fromN, fromD := c.From.Fraction()
	toN, toD := c.To.Fraction()
	return float64(toD)/float64(toN) > float64(fromD)/float64(fromN)
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
// into one entry, and so are changes in one direction that follow a budget.
func noteRateChange(list []queue.RateChange, n queue.RateChange) []queue.RateChange {
	merged := n.Cause == queue.AdaptedDelivered || n.Cause == queue.AdaptedBudget
	if merged && len(list) > 0 && list[0].Cause == n.Cause && isSlower(list[0]) == isSlower(n) {
		n.From = list[0].From
		list = list[1:]
	}
	list = append([]queue.RateChange{n}, list...)
	return list[:min(len(list), queue.MaxRateChanges)]
}
