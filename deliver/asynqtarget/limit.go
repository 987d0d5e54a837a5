package asynqtarget

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
)

// Turns let callers through at the rate of a queue.
type Turns interface {
	// Wait returns nil when the caller may start, and an error with RetryIn, a Later, if that would not be
	// within the time.
	Wait(ctx context.Context, within time.Duration) error
}

// Later is the error of a turn that is too far off.
type Later interface {
	error
	// RetryIn is when to come back.
	RetryIn() time.Duration
}

// Limit returns middleware that holds the handlers behind it to the rate of a queue, together with all others
// that use it. A task waits for its turn for that time at most, in a worker's place; if the turn is farther off, it
// goes back to asynq, to be retried when its turn could be. For that the server's Config must have
// IsFailure and RetryDelay of this package; then no retry is spent. One that has no retry left would be archived by
// asynq all the same: it waits in the worker's place for as long as its handler may take.
func Limit(turns Turns, within time.Duration) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			err := wait(ctx, turns, within)
			for later := Later(nil); lastTry(ctx) && errors.As(err, &later); {
				if err = sleep(ctx, later.RetryIn()); err == nil {
					err = wait(ctx, turns, within)
				}
			}
			if err != nil {
				return err
			}
			return next.ProcessTask(ctx, task)
		})
	}
}

// wait waits for a turn. Its error is a Later, or ctx's.
func wait(ctx context.Context, turns Turns, within time.Duration) error {
	err := turns.Wait(ctx, within)
	var later Later
	if err == nil || ctx.Err() != nil || errors.As(err, &later) {
		return err
	}
	return &unstarted{err}
}

// unstarted is why a task could not even wait for its turn: the store was away, say. It has not failed either.
type unstarted struct{ error }

func (u *unstarted) Unwrap() error { return u.error }

// RetryIn makes it a Later.
func (*unstarted) RetryIn() time.Duration { return unstartedPause }

const unstartedPause = 5 * time.Second

// lastTry reports whether asynq archives the task if it comes back.
func lastTry(ctx context.Context) bool {
	spent, known := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	return known && spent >= most
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// IsFailure is for asynq.Config: a task that waits for its turn has not failed. Of any other error next decides, or
// asynq's default if it is nil.
func IsFailure(next func(error) bool) func(error) bool {
	return func(err error) bool {
		var later Later
		if errors.As(err, &later) {
			return false
		}
		return next == nil || next(err)
	}
}

// RetryDelay is for asynq.Config: a task that waits for its turn is retried when that could have come. Of any
// other error next decides, or asynq's default if it is nil.
func RetryDelay(next asynq.RetryDelayFunc) asynq.RetryDelayFunc {
	if next == nil {
		next = asynq.DefaultRetryDelayFunc
	}
	return func(n int, err error, task *asynq.Task) time.Duration {
		var later Later
		if errors.As(err, &later) {
			return later.RetryIn()
		}
		return next(n, err, task)
	}
}
