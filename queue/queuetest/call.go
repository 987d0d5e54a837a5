package queuetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

var callRules = []rule{
	{"a call whose context has ended does nothing", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b")
		v := r.grant(q, 1, "a")[0]
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		calls := map[string]func() error{
			"append":  func() error { _, err := r.e.Append(ctx, jobs(q, "c")); return err },
			"reserve": func() error { _, err := r.e.Reserve(ctx, r.request("client", q, 9)); return err },
			"settle": func() error {
				_, err := r.e.Settle(
					ctx, []queue.Settlement{settlement(queue.Deliver, v)},
				)
				return err
			},
			"extend":   func() error { _, err := r.e.Extend(ctx, []queue.Lease{lease(v)}); return err },
			"throttle": func() error { _, err := r.e.Throttle(ctx, q, time.Hour, ""); return err },
			"put":      func() error { _, err := r.e.Put(ctx, spec(q, "1/h"), queue.AnyRevision); return err },
			"get":      func() error { _, err := r.e.Get(ctx, q); return err },
			"lane":     func() error { _, _, err := r.e.Lane(ctx, q, "a"); return err },
			"list":     func() error { _, err := r.e.List(ctx, "", 9); return err },
			"delete":   func() error { return r.e.Delete(ctx, q, queue.AnyRevision, true) },
			"pause":    func() error { return r.e.Pause(ctx, q, queue.Pause{}) },
			"totals":   func() error { _, err := r.e.Totals(ctx); return err },
			"job":      func() error { _, err := r.e.Job(ctx, q, "a"); return err },
			"check":    func() error { return r.e.Check(ctx) },
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, context.Canceled) && !errors.Is(err, queue.ErrOutcomeUnknown) &&
				!errors.Is(err, queue.ErrUnavailable) {
				r.Errorf("%s: %v", name, err)
			}
		}
		r.clock.Advance(time.Second)
		if i := r.info(q); i.Pause.On() || i.Appended != 2 || i.Leased != 1 || i.Waiting != 1 ||
			!i.Spec.Rate.Unlimited() {
			r.Errorf("something was done: %+v", i)
		}
		r.grant(q, 9, "b")
		r.deliver(v)
	}},
	{"an invalid request to reserve grants nothing", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		p, c := r.partition(q), queue.Client{ID: "client"}
		for name, req := range map[string]queue.ReserveRequest{
			"max -1":           {Partition: p, Client: c, Number: 1, Max: -1},
			"max 501":          {Partition: p, Client: c, Number: 1, Max: queue.MaxReserve + 1},
			"partition -1":     {Partition: -1, Client: c, Number: 1, Max: 1},
			"partition beyond": {Partition: r.e.Partitions(), Client: c, Number: 1, Max: 1},
			"no client":        {Partition: p, Number: 1, Max: 1},
			"lead -1":          {Partition: p, Client: c, Number: 1, Max: 1, Lead: -1},
			"uncertainty -1":   {Partition: p, Client: c, Number: 1, Max: 1, Uncertainty: -1},
			"clock with space": {Partition: p, Client: c, Number: 1, Max: 1, Clock: "a b"},
			"client blank":     {Partition: p, Client: queue.Client{ID: "a b"}, Number: 1, Max: 1},
			"client long":      {Partition: p, Client: queue.Client{ID: strings.Repeat("c", 65)}, Number: 1, Max: 1},
		} {
			if res, err := r.e.Reserve(r.ctx, req); err == nil {
				r.Errorf("%s: %+v", name, res)
			}
		}
		r.grant(q, 9, "a")
	}},
	{"an unknown verdict is an error and leaves the lease alone", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b", "c")
		v := r.grant(q, 9, "a", "b", "c")
		out := r.settle(settlement(queue.Deliver, v[0]), settlement(0, v[1]), settlement(9, v[2]))
		if out[0].State != queue.Delivered || out[1].Err == nil || out[2].Err == nil ||
			out[1].State != queue.StateNone || out[2].State != queue.StateNone {
			r.Errorf("got %+v", out)
		}
		r.deliver(v[1], v[2])
	}},
	{"a negative back-off counts as zero, and a very long one is kept", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b")
		v := r.grant(q, 9, "a", "b")
		r.fail(-time.Hour, v[0])
		r.fail(10*365*24*time.Hour, v[1])
		r.grant(q, 9, "a")
		r.clock.Advance(9 * 365 * 24 * time.Hour)
		r.state(queue.Scheduled, q, "b")
	}},
	{"the store passes its check", func(r *rig) {
		r.check(r.e.Check(r.ctx))
	}},
	{"a closed engine says so, and may be closed again", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		ear := r.e.Wake(r.ctx)
		r.check(r.e.Close())
		r.check(r.e.Close())
		r.closed = true
		if _, err := r.e.Append(r.ctx, jobs(q, "b")); !errors.Is(err, queue.ErrClosed) {
			r.Errorf("append: %v", err)
		}
		if _, err := r.e.Settle(r.ctx, []queue.Settlement{{
			Lease: queue.Lease{Queue: q, ID: "a", Fence: "x"}, Verdict: queue.Deliver,
		}}); !errors.Is(err, queue.ErrClosed) {
			r.Errorf("settle: %v", err)
		}
		late := time.After(10 * time.Second)
		for {
			select {
			case _, ok := <-ear:
				if !ok {
					return
				}
			case <-late:
				r.Fatal("the channel of wake-ups is still open after 10 s")
			}
		}
	}},
}

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
