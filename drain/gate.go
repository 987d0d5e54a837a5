package drain

import (
	"context"
	"fmt"
	"time"
)

// Closes implements Gate.
func (dl *delivery) Closes() time.Time { return dl.latest }

// Wait implements Gate.
func (dl *delivery) Wait(ctx context.Context) error {
	if dl.job.Span == nil {
		return dl.wait(ctx)
	}
	since := time.Now()
	err := dl.wait(ctx)
	dl.job.Span.Waited(since, err)
	return err
}

func (dl *delivery) wait(ctx context.Context) error {
	for {
		wait, err := dl.try(time.Now())
		if err == nil && wait > 0 {
			err = dl.sleep(ctx, wait)
		}
		if err != nil {
			dl.pace.leave(dl)
			return err
		}
		if wait <= 0 {
			return nil
		}
	}
}

// try starts the job, refuses it, or returns how long to wait before trying again.
func (dl *delivery) try(now time.Time) (time.Duration, error) {
	dl.mu.Lock()
	defer dl.mu.Unlock()
	again := !dl.passed.IsZero()
	switch {
	case dl.over || dl.refused != 0:
		return 0, ErrLate
	case now.After(dl.latest):
		if dl.waited { // the job was in time, but its timer was late
			dl.part.d.appetite.late(now)
		}
		dl.refused = Late
		return 0, ErrLate
	case again:
		return 0, nil
	case dl.part.d.starts.Err() != nil:
		dl.refused = Stopping
		return 0, fmt.Errorf("%w: %w", ErrLate, ErrStopping)
	}
	if wait := dl.DepartsBy.Sub(now); wait > 0 {
		dl.waited = true
		return wait, nil
	}
	if !dl.job.Spec.Rate.Unlimited() {
		if wait := dl.pace.start(dl, now); wait > 0 {
			if now.Add(wait).After(dl.latest) {
				dl.refused = Late
				return 0, ErrLate
			}
			return wait, nil
		}
	}
	dl.passed = now
	dl.part.d.appetite.started()
	dl.leave()
	return 0, nil
}

// leave notes that the job has started, or will not start.
func (dl *delivery) leave() {
	dl.batch.over()
	if d := dl.part.d; d.stop.Err() != nil {
		select {
		case d.gone <- struct{}{}:
		default:
		}
	}
}

// untilLate returns how long the job may still start; over means that it has started or never will.
func (dl *delivery) untilLate(now time.Time) (left time.Duration, over bool) {
	dl.mu.Lock()
	defer dl.mu.Unlock()
	return dl.latest.Sub(now), dl.over || !dl.passed.IsZero()
}

// depart reports the departure to the observer, once. The gate does not do that: a handler delayed behind the gate may
// still find out that it is too late. mu is held.
func (dl *delivery) depart() {
	if dl.passed.IsZero() || dl.departed {
		return
	}
	dl.departed = true
	dl.part.d.observer.Departed(&dl.job, dl.passed.Sub(dl.DepartsFrom))
}

func (dl *delivery) sleep(ctx context.Context, wait time.Duration) error {
	d := dl.part.d
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-d.clock.after(wait):
	case <-timer.C:
	case <-d.starts.Done():
	case <-dl.ctx.Done():
	case <-ctx.Done():
		if dl.ctx.Err() == nil {
			return context.Cause(ctx)
		}
	}
	if err := dl.ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrLate, context.Cause(dl.ctx))
	}
	return nil
}
