package ops

import (
	"context"
	"errors"
	"sync"
)

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
