package drain

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/speccache"
)

const (
	specTimeout = 2 * time.Second
	// maxSpecs is more than a drainer has jobs of at a time.
	maxSpecs = 100_000
)

func newSpecs(engine Engine) *speccache.Cache[*queue.Spec] {
	return speccache.New(speccache.Options[*queue.Spec]{
		Patience: specTimeout, Max: maxSpecs,
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

// specOf returns the spec of a queue as far as it is known, or nil.
func (d *drainer) specOf(name string) *queue.Spec {
	spec, _, _ := d.specs.Known(name)
	return spec
}
