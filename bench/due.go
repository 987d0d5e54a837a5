package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// Figures of many queues due at the same time, and of drainers far from the store.

// tallies counts the drainers' requests and jobs.
type tallies struct {
	drain.NoObserver
	departed, released, calls atomic.Int64
}

func (t *tallies) Departed(*drain.Job, time.Duration)               { t.departed.Add(1) }
func (t *tallies) Released(string, drain.Reason)                    { t.released.Add(1) }
func (t *tallies) Reserved(_, _, _ int, _ time.Duration, err error) { t.calls.Add(1) }

func (t *tallies) String() string {
	departed := max(1, t.departed.Load())
	return fmt.Sprintf("released %.2f%%, %.2f requests a departure", 100*float64(t.released.Load())/float64(departed),
		float64(t.calls.Load())/float64(departed))
}

// manyQueues makes n queues with jobs jobs each.
func manyQueues(ctx context.Context, e queue.Engine, n, jobs int, rate leaky.Rate) error {
	var next atomic.Int64
	_, err := together(ctx, callers, int64(n), func(ctx context.Context) error {
		name := fmt.Sprintf("due%06d", next.Add(1))
		if err := put(ctx, e, name, rate); err != nil {
			return err
		}
		return fill(ctx, e, name, jobs)
	})
	return err
}

// others returns n engines on the store, each with its own client, through a proxy unless that is nil.
func (s *redisStore) others(
	ctx context.Context, n int, proxy *faultproxy.Proxy,
) (all []queue.Engine, closeAll func(), err error) {
	var closers []func()
	closeAll = func() {
		for _, c := range closers {
			c()
		}
	}
	for range n {
		o := &redis.Options{Addr: s.server.Addr(), PoolSize: callers, MaxRetries: -1, ContextTimeoutEnabled: true}
		if proxy != nil {
			o.Dialer = proxy.Dial
		}
		c := redis.NewClient(o)
		e, err := redisq.OpenClient(ctx, c, redisq.Options{})
		if err != nil {
			closeAll()
			return nil, func() {}, err
		}
		closers = append(closers, func() { _ = e.Close(); _ = c.Close() })
		all = append(all, e)
	}
	return all, closeAll, nil
}

// draining runs a drainer on each engine until stop is called.
func draining(ctx context.Context, engines []queue.Engine, o drain.Observer, start func()) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, len(engines))
	h := drain.HandlerFunc(func(context.Context, *drain.Job) error { start(); return nil })
	for _, e := range engines {
		go func() { ended <- drain.Run(ctx, e, h, drain.Options{Observer: o}) }()
	}
	return func() (err error) {
		cancel()
		for range engines {
			err = errors.Join(err, <-ended)
		}
		return err
	}
}

// departures waits until most jobs have departed or within has passed. It returns how many departed, and how long that
// took.
func departures(ctx context.Context, t *tallies, most int64, within time.Duration) (n int64, took time.Duration) {
	begin := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil && t.departed.Load() < most && time.Since(begin) < within {
		<-tick.C
	}
	return t.departed.Load(), time.Since(begin)
}

// dueStart starts drainers when one job waits in each of many slow queues.
func dueStart(queues, drainers int, goal float64) Figure {
	seen := new(tallies)
	count := func() int { return sized(queues) }
	return Figure{
		Name:   fmt.Sprintf("due-%d", queues),
		Unit:   fmt.Sprintf("s, time until each of %d queues at 1/m has started a job, drainers: %d", queues, drainers),
		Rounds: 3, Goal: fmt.Sprintf("%v s, at most 1%% released", goal),
		Met: func(ours, _, _ float64) bool { return ours <= goal && seen.released.Load() <= int64(count())/100 },
		Setup: func(ctx context.Context) (Measurements, error) {
			s, err := newRedisStore(ctx)
			if err != nil {
				return Measurements{}, err
			}
			var server time.Duration
			m := Measurements{Close: s.Close}
			m.Ours = func(ctx context.Context) (float64, error) {
				if err := s.again(ctx); err != nil {
					return 0, err
				}
				rate, err := leaky.ParseRate("1/m")
				if err != nil {
					return 0, err
				}
				if err := manyQueues(ctx, s.engine, count(), 1, rate); err != nil {
					return 0, err
				}
				before := s.used(ctx)
				n, took, err := drainQueues(ctx, s, drainers, seen, int64(count()), 2*time.Minute)
				server = s.used(ctx) - before
				if err == nil && n < int64(count()) {
					err = fmt.Errorf("%d of %d jobs departed", n, count())
				}
				return took.Seconds(), err
			}
			m.Notes = func() string {
				return fmt.Sprintf("last round: %v; the server took %v a queue", seen,
					(server / time.Duration(count())).Round(time.Microsecond))
			}
			return m, nil
		},
	}
}

// dueOutage keeps 10,000 slow queues busy for a minute, lets their backlog grow for another minute without drainers,
// and measures the time to deliver it.
var dueOutage = Figure{
	Name: "due-outage", Rounds: 1,
	Unit: "s, time to deliver the waiting jobs of 10,000 queues after 60 s without drainers",
	Goal: "15 s", Met: func(ours, _, _ float64) bool { return ours <= 15 },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		var notes []string
		return Measurements{
			Close: s.Close, Notes: func() string { return strings.Join(notes, "; ") },
			Ours: func(ctx context.Context) (float64, error) {
				o := &outage{store: s}
				took, err := o.run(ctx)
				notes = o.notes
				return took.Seconds(), err
			},
		}, nil
	},
}

type outage struct {
	store    *redisStore
	appended atomic.Int64
	notes    []string
}

func (o *outage) run(ctx context.Context) (backlog time.Duration, err error) {
	queues, span := sized(10_000), lasting(time.Minute)
	if err := o.store.again(ctx); err != nil {
		return 0, err
	}
	rate, err := leaky.ParseRate("1/m")
	if err != nil {
		return 0, err
	}
	if err := manyQueues(ctx, o.store.engine, queues, 0, rate); err != nil {
		return 0, err
	}
	offering, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	defer ended.Wait()
	defer stop()
	var failed error
	ended.Go(func() { failed = o.offer(offering, queues, span) })

	// phase runs drainers for a while, or until a job of each queue has left, and returns how long that took. A second
	// job of a queue waits for its rate. Jobs released because the drainers stop do not count.
	var left int64
	phase := func(what string, within time.Duration, backlog bool) (took time.Duration, err error) {
		engines, done, err := o.store.others(ctx, 2, nil)
		defer done()
		if err != nil {
			return 0, err
		}
		most := int64(math.MaxInt64)
		if backlog {
			most = min(int64(queues), o.appended.Load()-left)
		}
		seen, before := new(tallies), o.store.used(ctx)
		end := draining(ctx, engines, seen, func() {})
		_, took = departures(ctx, seen, most, within)
		share := 100 * float64(o.store.used(ctx)-before) / float64(took)
		o.notes = append(o.notes, fmt.Sprintf("%s: %d departed in %.1f s, %v; Redis had %.1f%% of a core", what,
			seen.departed.Load(), took.Seconds(), seen, share))
		err = end()
		left += seen.departed.Load()
		return took, errors.Join(err, failed)
	}
	if _, err := phase("steady", span, false); err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(span):
	}
	backlog, err = phase("after the outage", span, true)
	if err != nil {
		return 0, err
	}
	// A minute after the backlog, the next jobs of all queues are due in the same second.
	_, err = phase("steady again", span+span/4, false)
	return backlog, err
}

// offer appends a job to each queue in turn, to all queues once a span, until ctx ends.
func (o *outage) offer(ctx context.Context, queues int, span time.Duration) error {
	begin := time.Now()
	for i := 0; ; i++ {
		at := begin.Add(time.Duration(i) * span / time.Duration(queues))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(at)):
		}
		if err := fill(ctx, o.store.engine, fmt.Sprintf("due%06d", 1+i%queues), 1); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		o.appended.Add(1)
	}
}

// drainQueues runs drainers until most jobs have departed or within has passed. It returns how many departed, and how
// long that took, and resets seen.
func drainQueues(
	ctx context.Context, s *redisStore, drainers int, seen *tallies, most int64, within time.Duration,
) (n int64, took time.Duration, err error) {
	engines, done, err := s.others(ctx, drainers, nil)
	defer done()
	if err != nil {
		return 0, 0, err
	}
	seen.departed.Store(0)
	seen.released.Store(0)
	seen.calls.Store(0)
	stop := draining(ctx, engines, seen, func() {})
	n, took = departures(ctx, seen, most, within)
	return n, took, stop()
}

// goodput drains more and more queues whose backlog may leave faster than the machine can handle. It divides the
// throughput at the best number of queues by the throughput at the worst.
var goodput = Figure{
	Name: "goodput", Unit: "x, best over worst throughput, with 10 to 100,000 queues", Rounds: 1,
	Goal: "3 x", Met: func(ours, _, _ float64) bool { return ours <= 3 },
	Setup: func(ctx context.Context) (Measurements, error) {
		jobs, rate := sized(100_000), sized(30_000) // of all queues together
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		var notes []string
		m := Measurements{Close: s.Close, Notes: func() string { return strings.Join(notes, "; ") }}
		m.Ours = func(ctx context.Context) (float64, error) {
			best, worst := 0.0, math.Inf(1)
			for _, queues := range []int{1, 10, 100, 1_000, 10_000, 100_000} {
				if queues > jobs {
					break
				}
				if err := s.again(ctx); err != nil {
					return 0, err
				}
				each, err := leaky.ParseRate(fmt.Sprintf("%d/%dms", max(1, rate/queues), max(1, queues/rate)*1000))
				if err != nil {
					return 0, err
				}
				if err := manyQueues(ctx, s.engine, queues, max(1, jobs/queues), each); err != nil {
					return 0, err
				}
				seen := new(tallies)
				n, took, err := drainQueues(ctx, s, 2, seen, int64(jobs)*9/10, lasting(10*time.Second))
				if err != nil {
					return 0, err
				}
				v := float64(n) / took.Seconds()
				notes = append(notes, fmt.Sprintf("%d queues: %.0f/s, %v", queues, v, seen))
				if queues > 1 {
					best, worst = max(best, v), min(worst, v)
				}
			}
			return best / worst, nil
		}
		return m, nil
	},
}
