package speccache

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
)

// Specs returns a Cache of at most that many queues' specs, for AtLeast; 0 is the default of Options.
func Specs(engine Reader, patience time.Duration, most int) *Cache[*queue.Spec] {
	readMany := func(ctx context.Context, names []string) (map[string]Value[*queue.Spec], error) {
		found, err := engine.ReadSpecs(ctx, names)
		if err != nil {
			return nil, fmt.Errorf("specs of queues: %w", err)
		}
		values := make(map[string]Value[*queue.Spec], len(found))
		for i := range found {
			spec := &found[i].Spec
			spec.Normalize()
			values[spec.Name] = Value[*queue.Spec]{spec, found[i].Revision}
		}
		return values, nil
	}
	return New(Options[*queue.Spec]{
		Patience: patience, Max: most, ReadMany: readMany,
		Read: func(ctx context.Context, name string) (*queue.Spec, int64, error) {
			values, err := readMany(ctx, []string{name})
			v, ok := values[name]
			if err == nil && !ok {
				err = fmt.Errorf("spec of queue %s: %w", name, queue.ErrUnknownQueue)
			}
			return v.Value, v.Revision, err
		},
	})
}

// Reader reads specs. Engines implement it.
type Reader interface {
	ReadSpecs(ctx context.Context, names []string) ([]queue.KeptSpec, error)
}
