package admission

import (
	"context"
	"errors"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

const (
	// askAgain is the longest pause between two takes of a waiting caller, after which refunds and changed rules are
	// noticed.
	askAgain = time.Second
	// askPlaceAgain is the same for a place of concurrency, which is usually given back before it expires.
	askPlaceAgain = 200 * time.Millisecond
	// leastAgain is the shortest pause.
	leastAgain = time.Millisecond
)

// ErrCrowded means that too many callers wait for a rule: 1,024 for one key, or 4,096 in the process.
var ErrCrowded = errors.New("too many callers wait for a rule")

// TakeWait asks a rule for a take, as Take does, and waits up to within if the take is refused now. Callers of the same
// rule and key wait in one list, first come first served. Only the first of them asks the store. While others wait, a
// Take of the same key in this process is refused. The list belongs to this process; between processes the order is
// random. For one order across processes use a queue of turns; see pull.Turns.
//
// It returns a refusal at once if the take is not expected within that time, and an *invalid.Error in Err if the take
// can never pass. If ctx ends, a take that was allowed is given back. Errors also: ErrCrowded, as Take.
func (a *Admission) TakeWait(
	ctx context.Context, rule string, t rules.Take, within time.Duration,
) (rules.Taken, error) {
	until := time.Now().Add(within)
	r, err := a.rules.get(ctx, rule)
	if err != nil {
		return rules.Taken{}, err
	}
	if t.Lease != "" { // the holder of a place renews it without waiting
		answers, _, err := a.askOne(context.WithoutCancel(ctx), rule, t)
		if err != nil || answers[0].Allowed || answers[0].Shadow || answers[0].Err != nil {
			return answered(answers, err)
		}
	}
	w, err := a.waitlists.join(rule, t, interval(r, t.Key))
	if err != nil {
		return rules.Taken{}, err
	}
	defer a.waitlists.leave(w)
	refused, err := w.awaitFirst(ctx, until)
	switch {
	case err != nil:
		return rules.Taken{}, err
	case refused != nil:
		return *refused, nil
	}
	return a.takeFirst(ctx, r, t, w, until)
}

func answered(answers []rules.Taken, err error) (rules.Taken, error) {
	if err != nil {
		return rules.Taken{}, err
	}
	return answers[0], nil
}

// takeFirst asks until the take is allowed or its time is over. No other caller of the list asks meanwhile.
func (a *Admission) takeFirst(
	ctx context.Context, r *knownRule, t rules.Take, w *waiter, until time.Time,
) (rules.Taken, error) {
	places := r.Algorithm == leaky.AlgorithmConcurrency
	pause := askAgain
	if places {
		pause = askPlaceAgain
	}
	for {
		// Wait for the answer even if the caller leaves: an allowed take must then be given back.
		answers, _, err := a.askOne(context.WithoutCancel(ctx), r.Name, t)
		if err != nil {
			return rules.Taken{}, err
		}
		taken := answers[0]
		switch {
		case ctx.Err() != nil:
			a.GiveBack(ctx, r.Name, t, taken)
			return rules.Taken{}, ctx.Err()
		case taken.Err != nil || taken.Allowed || taken.Shadow:
			return taken, nil
		}
		wait := max(taken.RetryAfter, leastAgain)
		w.refused(taken)
		left := time.Until(until)
		if left <= 0 || wait > left && !places { // a place may be given back before it expires
			return taken, nil
		}
		if err := w.pause(ctx, min(wait, pause, left)); err != nil {
			return rules.Taken{}, err
		}
	}
}

// askOne asks for one caller, bypassing the list.
func (a *Admission) askOne(
	ctx context.Context, rule string, t rules.Take,
) (taken []rules.Taken, asked bool, err error) {
	takes := []rules.Take{t}
	taken, asked, err = a.decide(ctx, rule, takes)
	a.o.Observer.Answered(rule, takes, taken, err)
	if err == nil && len(taken) != 1 {
		err = queue.ErrOutcomeUnknown // cannot happen
	}
	return taken, asked, err
}

// GiveBack gives back an allowed take that was not used. If giving back fails, the take expires by itself. A take with
// a Lease is not given back, because the caller may have held that place before; it expires by itself, too.
func (a *Admission) GiveBack(ctx context.Context, rule string, t rules.Take, answer rules.Taken) {
	if !answer.Allowed || answer.Err != nil || t.Lease != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backTimeout) // the caller may have left
	defer cancel()
	back := rules.Take{Op: rules.TakeBack, Key: t.Key, Cost: max(1, t.Cost), Lease: answer.Lease}
	if answer.ID != "" {
		back = rules.Take{Op: rules.TakeCorrect, Key: t.Key, Unit: t.Unit, ID: answer.ID}
	}
	if answer.Away != "" {
		if r, err := a.rules.get(ctx, rule); err == nil {
			a.refundShare(&r.Rule, back)
		}
		return
	}
	if !a.outages.has(rule) {
		_, _ = a.ask(ctx, rule, []rules.Take{back})
	}
	a.waitlists.wake(rule, t.Key)
}

// interval returns how long a cost of 1 takes to become available under a key; 0 if there is no pace.
func interval(r *knownRule, key string) time.Duration {
	b := r.Of(key)
	switch {
	case !b.Rate.Unlimited():
		return b.Rate.Interval()
	case b.Limit == 0:
		return b.Period.D()
	}
	return 0
}
