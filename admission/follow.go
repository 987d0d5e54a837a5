package admission

import (
	"context"
	"errors"
	"time"

	"github.com/penstock/penstock/internal/speccache"
)

const (
	// maxAge is the maximum age of a known rule or queue while the store answers.
	maxAge = time.Second
	// refreshAge is the age from which it is read again in the background, so that steady callers never wait.
	refreshAge = maxAge / 2
)

// followed has the present values of names in use. While the store is away it has the last known ones.
type followed[T any] struct {
	*speccache.Cache[T]
	outages *outages
}

// follow returns a followed that reads with read. failed is called when the store did not answer; it may be nil.
func follow[T any](
	o *outages, missing error, patience time.Duration, read func(ctx context.Context, name string) (T, error),
	failed func(name string, err error),
) followed[T] {
	return followed[T]{outages: o, Cache: speccache.New(speccache.Options[T]{
		Missing: missing, Patience: patience, MaxAge: maxAge,
		Read: func(ctx context.Context, name string) (T, int64, error) {
			value, err := read(ctx, name)
			if err != nil && isAway(err) && !errors.Is(ctx.Err(), context.Canceled) { // otherwise it was closed
				if failed != nil {
					failed(name, err)
				}
				o.begin(name, err, func(ctx context.Context) error {
					_, err := read(ctx, name)
					return err
				})
			}
			return value, 0, err
		},
	})}
}

// get returns the value of a name. Its error means that the name does not exist, or says why the value is unknown.
// While the store is known to be away, the error comes at once.
func (f followed[T]) get(ctx context.Context, name string) (value T, err error) {
	value, _, known := f.Known(name)
	if known {
		f.Refresh(name, refreshAge)
		if f.outages.has(name) {
			return value, nil
		}
	} else if err := f.outages.unanswered(name); err != nil && ctx.Err() == nil {
		return value, err
	}
	return f.Get(ctx, name)
}
