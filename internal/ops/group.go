package ops

import (
	"context"
	"errors"
	"sync"
	"time"
)

// RunOver runs over on top of under, which goes on until over has ended. When ctx ends
// over is stopped; when under ends by itself over is, too. It returns when both have ended,
// with their errors.
func RunOver(ctx context.Context, over, under func(context.Context) error) error {
	return RunAll(context.WithoutCancel(ctx),
		func(lasting context.Context) error {
			work, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(lasting, cancel)()
			return over(work)
		},
		under,
	)
}

// Linger returns a context that ends so long after ctx does: what runs in it goes on for that time, while others are
// told that it will end. Stop ends it at once.
func Linger(ctx context.Context, d time.Duration) (later context.Context, stop context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		if d > 0 {
			timer := time.NewTimer(d)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-later.Done():
			}
		}
		cancel()
	})
	return later, func() { forget(); cancel() }
}

// RunAll runs all of them together. The first to end, in whatever way, stops the
// others by their context. It returns when all have ended, with their errors.
func RunAll(ctx context.Context, runs ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(runs))
	var all sync.WaitGroup
	for i, run := range runs {
		all.Go(func() {
			defer stop()
			errs[i] = run(ctx)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
