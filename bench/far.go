package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// far measures the rate of a queue whose drainers get Redis's replies late.
var far = Figure{
	Name: "far", Unit: "%, achieved share of 245/s, with replies to two drainers delayed by 20 ms", Rounds: 3,
	Floor: "replies at once",
	Goal:  "95%, window law held", Met: func(ours, _, _ float64) bool { return ours >= 95 && !farBroken },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		var needed time.Duration
		var seen *tallies
		farBroken = false
		run := func(by time.Duration) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				share, tallied, v, err := farRate(ctx, s, by)
				if by > 0 {
					seen, needed = tallied, v.Needed
				}
				farBroken = farBroken || !v.Held
				return share, err
			}
		}
		return Measurements{
			Ours: run(20 * time.Millisecond), Floor: run(0), Close: s.Close,
			Notes: func() string {
				return fmt.Sprintf("%v; the law needed %v of slack, but has %v", seen, needed.Round(time.Microsecond),
					queue.LeastSlack)
			},
		}, nil
	},
}

// farBroken reports whether any round broke the window law.
var farBroken bool

func farRate(
	ctx context.Context, s *redisStore, by time.Duration,
) (share float64, seen *tallies, v law.Verdict, err error) {
	const rate = 245
	if err := s.again(ctx); err != nil {
		return 0, nil, v, err
	}
	if err := put(ctx, s.engine, queueName, leaky.PerSecond(rate)); err != nil {
		return 0, nil, v, err
	}
	if err := fill(ctx, s.engine, queueName, sized(4000)); err != nil {
		return 0, nil, v, err
	}
	proxy, err := faultproxy.Start(ctx, s.server.Addr())
	if err != nil {
		return 0, nil, v, err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	if by > 0 {
		proxy.Delay(func(faultproxy.Command) bool { return true }, by)
	}
	engines, done, err := s.others(ctx, 2, proxy)
	defer done()
	if err != nil {
		return 0, nil, v, err
	}
	var mu sync.Mutex
	var starts []law.Start
	begin := time.Now()
	seen = new(tallies)
	stop := draining(ctx, engines, seen, func() {
		mu.Lock()
		defer mu.Unlock()
		starts = append(starts, law.Start{At: time.Since(begin)})
	})
	time.Sleep(lasting(2 * time.Second)) // by then the clocks are known
	before, at := seen.departed.Load(), time.Now()
	time.Sleep(lasting(6 * time.Second))
	share = 100 * float64(seen.departed.Load()-before) / rate / time.Since(at).Seconds()
	if err = stop(); err != nil {
		return 0, nil, v, err
	}
	mu.Lock()
	defer mu.Unlock()
	v = law.Law{Rate: leaky.PerSecond(rate), Slack: queue.LeastSlack, Delta: 2 * time.Millisecond}.Judge(starts)
	return share, seen, v, err
}
