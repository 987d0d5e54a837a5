package speccache

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
)

// Specs returns a Cache of at most so many queues' specs, for AtLeast; 0 is the default of Options.
func Specs(engine queue.SpecReader, patience time.Duration, most int) *Cache[*queue.Spec] {
	return New(Options[*queue.Spec]{
		Patience: patience, Max: most,
		Read: func(ctx context.Context, name string) (*queue.Spec, int64, error) {
			info, err := engine.Get(ctx, name)
			if err != nil {
				return nil, 0, fmt.Errorf("spec of queue %s: %w", name, err)
			}
			info.Spec.Normalize()
			return &info.Spec, info.Revision, nil
		},
	})
}
