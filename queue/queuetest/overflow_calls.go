package queuetest

import (
	"context"
	"errors"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

// overflowCalls returns every call of queue.Overflow, each about queue q with the job "a" set aside.
func (s *fakeOverflow) overflowCalls(a queue.Appended) map[string]func(context.Context) error {
	o := s.e
	empty := s.request(0)
	empty.Empty, empty.Behind = true, 0
	return map[string]func(context.Context) error{
		"offer": func(ctx context.Context) error { _, err := o.Offer(ctx, jobs(s.q, "b")); return err },
		"withdraw": func(ctx context.Context) error {
			_, err := o.Withdraw(ctx, []queue.Ticketed{ticketed(a, s.q)})
			return err
		},
		"announce": func(ctx context.Context) error { return o.Announce(ctx, s.q) },
		"readmit":  func(ctx context.Context) error { _, err := o.Readmit(ctx, s.request(1)); return err },
		"empty":    func(ctx context.Context) error { _, err := o.Readmit(ctx, empty); return err },
		"cancel":   func(ctx context.Context) error { _, err := o.Cancel(ctx, s.q, "a"); return err },
		"names":    func(ctx context.Context) error { _, err := o.Backlogged(ctx, 9); return err },
	}
}

var overflowCallRules = []rule{
	{"a call whose context has ended does nothing", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		a := s.empties("a")[0]
		s.generation()
		r.clock.Advance(time.Hour)
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		for name, call := range s.overflowCalls(a) {
			if err := call(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, queue.ErrOutcomeUnknown) &&
				!errors.Is(err, queue.ErrUnavailable) {
				r.Errorf("%s: %v", name, err)
			}
		}
		r.tallies(s.q, tally{deferred: 1, appended: 2, setAside: 1, delivered: 2})
		s.holder = "another" // nobody holds the way back
		s.takes(readmit.Returned)
	}},
	{"a closed engine says so", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		a := s.empties("a")[0]
		calls := s.overflowCalls(a)
		r.check(r.e.Close())
		r.closed = true
		for name, call := range calls {
			if err := call(r.ctx); !errors.Is(err, queue.ErrClosed) {
				r.Errorf("%s: %v", name, err)
			}
		}
	}},
}
