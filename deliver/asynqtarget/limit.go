package asynqtarget

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/hibiken/asynq"
)

// Turns limits callers to the rate of a queue; see pull.Turns.
type Turns interface {
	// Wait returns nil when the caller may start. If that would be after the given time, the error is a Later.
	Wait(ctx context.Context, within time.Duration) error
}

// Later is the error of a turn that is too far off.
type Later interface {
	error
	// RetryIn returns when to come back.
	RetryIn() time.Duration
}

const (
	// asynq's defaults of the settings that decide when asynq checks tasks that were sent back.
	defaultDelayed = 5 * time.Second
	defaultCheck   = time.Second

	// spareWait is how long the last free worker waits for a turn.
	spareWait = time.Second
	// unstartedPause is the delay of a task that could not even wait for its turn.
	unstartedPause = 5 * time.Second
)

// Limit prepares the configuration of an asynq server, and returns a function that makes middleware from the turns of a
// queue. Call it once, before asynq.NewServer. The middleware limits the handlers behind it to the rate of the queue,
// shared with all other workers that use the queue.
//
// A task waits for its turn in its worker. If the turn is too far off, the task is sent back to asynq and spends no
// retry. asynq checks such tasks only every Config.DelayedTaskCheckInterval. So a task is sent back only if its turn is
// farther off than that and two of Config.TaskCheckInterval, and it returns before its turn. A task waits at most half
// of the time that its handler has left.
//
// While all other workers wait, the last one waits at most a second, so that tasks without a limit get a worker. The
// only worker of a server does wait longer. So does a task without retries left, because asynq would archive it: it
// waits as long as its handler may take.
func Limit(config *asynq.Config) func(Turns) asynq.MiddlewareFunc {
	workers := config.Concurrency
	if workers < 1 {
		workers = runtime.NumCPU()
	}
	l := &limiter{
		patience: positive(config.DelayedTaskCheckInterval, defaultDelayed) +
			2*positive(config.TaskCheckInterval, defaultCheck),
		long: make(chan struct{}, max(1, workers-1)),
	}
	config.IsFailure = isFailure(config.IsFailure)
	config.RetryDelayFunc = retryDelay(config.RetryDelayFunc)
	return func(turns Turns) asynq.MiddlewareFunc {
		return func(next asynq.Handler) asynq.Handler {
			return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
				if err := l.enter(ctx, turns); err != nil {
					return err
				}
				return next.ProcessTask(ctx, task)
			})
		}
	}
}

func positive(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// limiter is shared by all middleware of one server.
type limiter struct {
	patience time.Duration // how long a task waits for its turn
	long     chan struct{} // holds an element for each worker that waits longer than spareWait
}

// enter waits for a turn, until the task's deadline if the task cannot be sent back. Its error is a Later, or ctx's.
func (l *limiter) enter(ctx context.Context, turns Turns) error {
	last := lastTry(ctx)
	for {
		err := l.wait(ctx, turns, last)
		if later := Later(nil); !last || !errors.As(err, &later) {
			return err
		} else if err := sleep(ctx, later.RetryIn()); err != nil {
			return err
		}
	}
}

// wait waits for a turn. After spareWait a worker goes on waiting only if another worker is free, or the task is at its
// last try.
func (l *limiter) wait(ctx context.Context, turns Turns, last bool) error {
	within := l.patience
	if deadline, ok := ctx.Deadline(); ok && !last {
		within = min(within, time.Until(deadline)/2)
	}
	waiting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	decided, longer := make(chan struct{}), false
	timer := time.AfterFunc(spareWait, func() {
		defer close(decided)
		select {
		case l.long <- struct{}{}:
			longer = true
		default:
			if !last {
				giveUp(errBusy)
			}
		}
	})
	defer func() {
		if timer.Stop() {
			return
		}
		if <-decided; longer {
			<-l.long
		}
	}()
	err := turns.Wait(waiting, within)
	var later Later
	switch {
	case err == nil || ctx.Err() != nil || errors.As(err, &later):
		return err
	case errors.Is(context.Cause(waiting), errBusy):
		return errBusy
	}
	return &sentBack{err, unstartedPause}
}

// errBusy sends a task back although its turn is near. asynq looks at it again at its next check.
var errBusy = &sentBack{errors.New("asynqtarget: all other workers wait for turns"), 0}

// sentBack is why a task could not wait for its turn, for example because the store was away. The task has not failed.
type sentBack struct {
	error
	pause time.Duration
}

func (s *sentBack) Unwrap() error { return s.error }

// RetryIn implements Later.
func (s *sentBack) RetryIn() time.Duration { return s.pause }

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

// isFailure is for asynq.Config: a task that waits for its turn has not failed. next decides about other errors; nil
// means asynq's default.
func isFailure(next func(error) bool) func(error) bool {
	return func(err error) bool {
		var later Later
		if errors.As(err, &later) {
			return false
		}
		return next == nil || next(err)
	}
}

// retryDelay is for asynq.Config: a task that waits for its turn is retried when its turn may have come. next decides
// about other errors; nil means asynq's default.
func retryDelay(next asynq.RetryDelayFunc) asynq.RetryDelayFunc {
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
