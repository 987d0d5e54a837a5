package redistest

import (
	"context"
	"fmt"
	"time"
)

// poll calls check repeatedly until it returns nil. If ctx ends first, the error includes check's last error.
func poll(ctx context.Context, interval time.Duration, check func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", ctx.Err(), err)
		}
	}
}
