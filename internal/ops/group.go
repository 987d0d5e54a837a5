package ops

import (
	"context"
	"errors"
	"sync"
	"time"
)

// RunOver runs over and under. When ctx ends, or when under ends by itself, it stops over. It stops under only after
// over has ended. It returns their joined errors when both have ended.
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

// Linger returns a context that ends d after ctx ends. stop ends it at once.
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

// RunAll runs all functions concurrently. When the first one ends, with or without an error, it cancels the others'
// context. It returns their joined errors when all have ended.
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
