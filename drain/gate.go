package drain

import (
	"context"
	"fmt"
	"time"
)

// Closes is the last instant at which Wait returns nil.
func (a *attempt) Closes() time.Time { return a.latest }

// Wait is the gate.
func (a *attempt) Wait(ctx context.Context) error {
	if a.job.Span == nil {
		return a.wait(ctx)
	}
	since := time.Now()
	err := a.wait(ctx)
	a.job.Span.Waited(since, err)
	return err
}

func (a *attempt) wait(ctx context.Context) error {
	for {
		wait, err := a.try(time.Now())
		if err == nil && wait > 0 {
			err = a.sleep(ctx, wait)
		}
		if err != nil {
			a.pace.leave(a)
			return err
		}
		if wait <= 0 {
			return nil
		}
	}
}

// try starts the job, refuses it, or returns how long to wait before trying again.
func (a *attempt) try(now time.Time) (time.Duration, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	again := !a.passed.IsZero()
	switch {
	case a.over || a.refused != 0:
		return 0, ErrLate
	case now.After(a.latest):
		if a.waited { // it was in time, and its timer was not
			a.part.d.appetite.late(now)
		}
		a.refused = Late
		return 0, ErrLate
	case again:
		return 0, nil
	case a.part.d.stop.Err() != nil:
		a.refused = Stopping
		return 0, fmt.Errorf("%w: %w", ErrLate, ErrStopping)
	}
	if wait := a.Earliest.Sub(now); wait > 0 {
		a.waited = true
		return wait, nil
	}
	if !a.job.Spec.Rate.Unlimited() {
		if wait := a.pace.start(a, now); wait > 0 {
			if now.Add(wait).After(a.latest) {
				a.refused = Late
				return 0, ErrLate
			}
			return wait, nil
		}
	}
	a.passed = now
	a.part.d.appetite.started()
	a.batch.over()
	return 0, nil
}

// depart tells the observer that the job has departed, once. The gate does not: a handler that
// is kept from running behind it may find that it is too late after all. a.mu is held.
func (a *attempt) depart() {
	if a.passed.IsZero() || a.departed {
		return
	}
	a.departed = true
	a.part.d.observer.Departed(&a.job, a.passed.Sub(a.Departs))
}

func (a *attempt) sleep(ctx context.Context, wait time.Duration) error {
	d := a.part.d
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-d.clock.after(wait):
	case <-timer.C:
	case <-d.stop.Done():
	case <-a.ctx.Done():
	case <-ctx.Done():
		if a.ctx.Err() == nil {
			return context.Cause(ctx)
		}
	}
	if err := a.ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrLate, context.Cause(a.ctx))
	}
	return nil
}
