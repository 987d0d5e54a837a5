package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/deliver/usage"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

// using is a call whose answer states what it has used.
type using struct {
	queue  string
	target *httptarget.Target
	read   *usage.Reader // nil if the answer does not state it
	meant  httptarget.Meant
	whole  bool // the answer was passed on to its end

	settlement queue.Settlement // at the end of the answer
	stated     time.Time        // when the settlement's budget was stated
}

// feedback settles a turn by the answer to its call, and stops the queue if the receiver asks for that. It reports
// whether the turn is yet to be settled, at the end of the answer.
func (p *Proxy) feedback(
	ctx context.Context, spec *queue.Spec, turn *pull.Departure, answer *http.Response, u *using,
) (open bool) {
	name, m := spec.Name, u.meant
	now := time.Now()
	left, err := u.target.BudgetLeft(spec, answer.Header, now, turn.Costs)
	if err != nil {
		p.complaints.Do(func() {
			p.o.Logger.Warn("ignored the receiver's rate-limit headers; check the queue's learn", "queue", name,
				"error", err)
		})
	}
	switch {
	case m.Meaning == httptarget.Down, m.Meaning == httptarget.Retry && answer.StatusCode >= 500:
		turn.Fail(m.Why, false)
		return false
	case m.Meaning == httptarget.Throttled:
		if turn.Throttle(m.Stop, m.Why, left) {
			return false
		}
		m.Stop = max(m.Stop, queue.MinThrottleStop)
	case u.read.Pending(): // a stop cannot wait for the end of the answer
		u.settlement, u.stated, open = queue.Settlement{Budget: left}, now, true
		if m.Stop == 0 {
			return true
		}
	default:
		s := queue.Settlement{After: m.Stop, Reason: m.Why, Budget: left, Actual: p.actual(u)}
		if turn.End(s) || m.Stop == 0 {
			return false
		}
	}
	if _, err := p.engine.Throttle(ctx, name, m.Stop, m.Why); err != nil {
		p.o.Logger.Warn("stopping a queue after an answer failed; the next call will find out", "queue", name,
			"error", err)
	}
	return open
}

// settle settles a turn at the end of its answer. What was stated about the receiver's budget is older by then.
func (p *Proxy) settle(turn *pull.Departure, u *using) {
	s := u.settlement
	if s.Budget.Reset -= time.Since(u.stated); s.Budget.Reset <= 0 {
		s.Budget = queue.Budget{}
	}
	s.Actual = p.actual(u)
	turn.End(s)
}

// actual returns what a call has used, and tells the observer of what cannot be charged. Answers that refuse a call
// need not state it.
func (p *Proxy) actual(u *using) map[string]int64 {
	actual, faults := u.read.End(u.whole)
	if u.meant.Meaning == httptarget.Delivered {
		for _, fault := range faults {
			p.o.Observer.Ignored(u.queue, string(fault))
		}
	}
	return actual
}
