package prove

import (
	"context"
	"errors"
	"fmt"
	"time"
)

func makeQueues(ctx context.Context, o Options, s *layout) error {
	for _, spec := range s.specs {
		if err := started(ctx, patience, func() error { return o.Store.Make(ctx, spec) }); err != nil {
			return fmt.Errorf("make the queue %s: %w", spec.Name, err)
		}
	}
	return nil
}

// errNotSeen is transient: a drainer may still be starting.
var errNotSeen = errors.New("it has not asked the store for jobs")

// awaitDrainers waits until the store has heard from each drainer. A drainer that is stopped while it opens the store
// does not survive that, which would prove nothing about the installation.
func awaitDrainers(ctx context.Context, o Options, fl *fleet) error {
	begun := time.Now()
	for i := range o.Drainers {
		err := started(ctx, o.Startup-time.Since(begun), func() error {
			if err := fl.allUp(); err != nil {
				return err
			}
			switch drains, err := o.Store.Drains(ctx, fl.pid(i)); {
			case err != nil:
				return err
			case !drains:
				return errNotSeen
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("wait %v for drainer %d (its output is visible with --verbose): %w", o.Startup, i, err)
		}
	}
	return nil
}

// started repeats do for a while, until it succeeds or fails permanently, since the installation may still be starting.
func started(ctx context.Context, patience time.Duration, do func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := do()
		if err == nil || transient(err) != nil || time.Now().After(deadline) {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
