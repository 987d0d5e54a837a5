package boltq

import (
	"context"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// Append implements queue.Appender.
func (e *Engine) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.append(ctx, jobs, false)
}

// Offer implements queue.Overflow.
func (e *Engine) Offer(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.append(ctx, jobs, true)
}

func (e *Engine) append(ctx context.Context, jobs []queue.Job, offered bool) ([]queue.Appended, error) {
	if err := ctx.Err(); err != nil || len(jobs) == 0 {
		return nil, err
	}
	a := machine.NewAppending(jobs, offered)
	for done := false; !done; {
		tries, asking := 0, false
		err := e.do(ctx, func(now leaky.Instant) (wait uint64, err error) {
			if asking = e.machine.RulesOf(a); asking {
				return 0, nil
			}
			if tries++; tries > 1 {
				a.Again()
			}
			wait, done = e.machine.Append(now, a)
			return wait, nil
		})
		if err != nil {
			a.Fail(err)
			break
		}
		if asking { // finding keys in payloads takes a while, and needs no mutex
			a.FindAsks()
		}
	}
	if slices.ContainsFunc(a.Answers, func(one queue.Appended) bool { return one.Outcome != queue.Failed }) {
		return a.Answers, nil
	}
	return a.Answers, a.Answers[0].Err // nothing could be decided
}

// Withdraw implements queue.Overflow. For an unknown queue it promises nothing.
func (e *Engine) Withdraw(ctx context.Context, w []queue.Ticketed) ([]time.Duration, error) {
	return answer(ctx, e, func(now leaky.Instant) ([]time.Duration, uint64, error) {
		promises, wait := e.machine.Withdraw(now, w)
		return promises, wait, nil
	})
}

// Readmit implements queue.Overflow.
func (e *Engine) Readmit(ctx context.Context, r queue.ReadmitRequest) (out queue.Readmitted, err error) {
	back, err := machine.NewReadmission(r)
	if err != nil {
		return out, err
	}
	return answer(ctx, e, func(now leaky.Instant) (queue.Readmitted, uint64, error) {
		return e.machine.Readmit(now, back)
	})
}

// Announce implements queue.Overflow.
func (e *Engine) Announce(ctx context.Context, name string) error {
	return e.do(ctx, func(now leaky.Instant) (uint64, error) { return e.machine.Announce(now, name) })
}

// Backlogged implements queue.Overflow.
func (e *Engine) Backlogged(ctx context.Context, limit int) (names []string, err error) {
	err = e.look(ctx, func(leaky.Instant) error { names = e.machine.Backlogged(limit); return nil })
	slices.Sort(names)
	return names, err
}
