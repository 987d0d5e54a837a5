package prove

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// feed keeps a queue backlogged, in each of its lanes.
type feed struct {
	store   Store
	queue   string
	lanes   []*laneFeed
	limit   *limitSpec // in whose unit jobs have costs; nil without one
	pending []NewJob   // not answered yet, or refused for lack of room
}

// laneFeed feeds one lane.
type laneFeed struct {
	key   string
	depth int64 // number of jobs to keep in the lane
	next  int   // number of the next job
	held  int64 // accepted, and not yet arrived
}

// backlog is how long a queue could flow without the feed.
const backlog = 2 * time.Second

func newFeed(store Store, name string) *feed { return &feed{store: store, queue: name} }

// lane adds a lane whose rate is at most rate.
func (f *feed) lane(key string, rate leaky.Rate) {
	depth := math.Ceil(rate.PerSecond() * backlog.Seconds())
	f.lanes = append(f.lanes, &laneFeed{key: key, depth: max(3, int64(depth))})
}

func (f *feed) depth() (sum int64) {
	for _, l := range f.lanes {
		sum += l.depth
	}
	return sum
}

// top fills the lanes up and notes the accepted jobs. It returns no error if the installation cannot be reached now,
// since an injected fault may be the reason. Unanswered jobs are sent again.
func (f *feed) top(ctx context.Context, b *acceptedJobs) error {
	if len(f.pending) == 0 {
		f.fill()
		if len(f.pending) == 0 {
			return nil
		}
	}
	ok, err := f.store.Append(ctx, f.queue, f.pending)
	if err != nil {
		return transient(err)
	}
	left := f.pending[:0]
	for i, j := range f.pending {
		if ok[i] {
			b.accept(j.ID, flow{f.queue, j.Lane})
		} else {
			left = append(left, j)
		}
	}
	f.pending = left
	return nil
}

// fill makes the missing jobs, one lane after another.
func (f *feed) fill() {
	for more := true; more; {
		more = false
		for i, l := range f.lanes {
			if l.held < l.depth && len(f.pending) < coalesce.MaxItems {
				job := NewJob{ID: fmt.Sprintf("%s-%d-%07d", f.queue, i, l.next), Lane: l.key}
				if f.limit != nil {
					charged, _ := f.limit.costs(job.ID)
					job.Costs = map[string]int64{f.limit.Unit: charged}
				}
				f.pending = append(f.pending, job)
				l.next++
				l.held++
				more = true
			}
		}
	}
}

// arrived notes the first arrival of a job of a lane.
func (f *feed) arrived(lane string) {
	for _, l := range f.lanes {
		if l.key == lane {
			l.held--
		}
	}
}

// feeder keeps all feeds full.
type feeder struct {
	feeds    []*feed
	byQueue  map[string]*feed
	rec      *receiver.Receiver
	accepted *acceptedJobs
	seen     int             // arrivals examined so far
	early    []string        // arrived before their append was answered
	known    map[string]bool // ids of earlier arrivals
}

func newFeeder(feeds []*feed, rec *receiver.Receiver) *feeder {
	f := &feeder{
		feeds: feeds, rec: rec, accepted: newAcceptedJobs(), known: map[string]bool{}, byQueue: map[string]*feed{},
	}
	for _, one := range feeds {
		f.byQueue[one.queue] = one
	}
	return f
}

// run tops the feeds up until ctx ends.
func (f *feeder) run(ctx context.Context) error {
	tick := time.NewTicker(backlog / 10)
	defer tick.Stop()
	for {
		f.look()
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

// look examines new arrivals.
func (f *feeder) look() {
	arrivals := f.rec.Arrivals(f.seen)
	f.seen += len(arrivals)
	ids := f.early
	for _, a := range arrivals {
		if !f.known[a.ID] {
			f.known[a.ID] = true
			ids = append(ids, a.ID)
		}
	}
	f.early = nil
	for _, id := range ids {
		at, accepted := f.accepted.flowOf(id)
		if !accepted {
			f.early = append(f.early, id)
			continue
		}
		f.byQueue[at.queue].arrived(at.lane)
	}
}

func (f *feeder) top(ctx context.Context) error {
	for _, one := range f.feeds {
		if err := one.top(ctx, f.accepted); err != nil {
			return err
		}
	}
	return nil
}

// settle appends the jobs without an answer once more, since any of them may have been accepted.
func (f *feeder) settle(ctx context.Context) error {
	for _, one := range f.feeds {
		for len(one.pending) > 0 {
			if err := one.top(ctx, f.accepted); err != nil {
				return err
			}
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return fmt.Errorf("%d appends are still without an answer: %w", len(one.pending), err)
			}
		}
	}
	return nil
}

// transient returns nil for errors that pass.
func transient(err error) error {
	var gone *client.Unreachable
	var refused *client.Problem
	switch {
	case errors.Is(err, queue.ErrUnavailable), errors.Is(err, queue.ErrOutcomeUnknown), errors.Is(err, errNotSeen),
		errors.As(err, &gone):
		return nil
	case errors.As(err, &refused) && refused.Again():
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
