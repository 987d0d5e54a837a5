package prove

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// feed keeps a queue backlogged.
type feed struct {
	store Store
	queue string
	depth int64 // how many jobs to keep in the queue

	mu       sync.Mutex
	accepted []string

	next    int      // number of the next id
	pending []string // ids whose append was not answered, or had no room
}

// backlog is how long the queue would flow if the feed stopped.
const backlog = 2 * time.Second

func newFeed(store Store, name string, rate leaky.Rate) *feed {
	depth := math.Ceil(rate.PerSecond() * backlog.Seconds())
	return &feed{store: store, queue: name, depth: max(3, int64(depth))}
}

// top fills the queue up. An installation that cannot be reached just now is no
// error, since a fault may be the reason: what was under way is sent again.
func (f *feed) top(ctx context.Context) error {
	if len(f.pending) == 0 {
		stats, err := f.store.Look(ctx, f.queue)
		if err != nil {
			return bearable(err)
		}
		for range min(f.depth-stats.Held, queue.FlightItems) {
			f.pending = append(f.pending, fmt.Sprintf("%s-%07d", f.queue, f.next))
			f.next++
		}
		if len(f.pending) == 0 {
			return nil
		}
	}
	ok, err := f.store.Append(ctx, f.queue, f.pending)
	if err != nil {
		return bearable(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.pending[:0]
	for i, id := range f.pending {
		if ok[i] {
			f.accepted = append(f.accepted, id)
		} else {
			left = append(left, id)
		}
	}
	f.pending = left
	return nil
}

// run tops the queue up until ctx ends.
func (f *feed) run(ctx context.Context) error {
	tick := time.NewTicker(backlog / 10)
	defer tick.Stop()
	for {
		if err := f.top(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("keep the queue backlogged: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// settle finds out about the appends that were never answered: any of them may
// be in, so they are appended once more.
func (f *feed) settle(ctx context.Context) error {
	for len(f.pending) > 0 {
		if err := f.top(ctx); err != nil {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%d appends are still without an answer: %w", len(f.pending), err)
		}
	}
	return nil
}

func (f *feed) ids() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.accepted...)
}

// bearable returns nil for errors that pass.
func bearable(err error) error {
	var gone *client.Unreachable
	var refused *client.Problem
	switch {
	case errors.Is(err, queue.ErrUnavailable), errors.Is(err, queue.ErrOutcomeUnknown), errors.As(err, &gone):
		return nil
	case errors.As(err, &refused) && (refused.Status >= 500 || refused.Status == 429):
		return nil
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
