package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

const million = 1_000_000

// millionPeriod is how long a key is remembered: longer than it takes to take all million keys once.
func millionPeriod() time.Duration { return max(time.Second, lasting(30*time.Second)) }

// millionPatience is the maximum time until nearly all memory of the keys is freed; appended jobs stay.
func millionPatience() time.Duration { return lasting(2 * time.Minute) }

// millionBound allows one or a few takes for each key. A key is remembered for millionPeriod, by a sliding counter for
// up to twice that.
func millionBound(a leaky.Algorithm) rules.Bound {
	switch period := millionPeriod(); a {
	case leaky.AlgorithmMeter:
		return rules.Bound{Rate: mustRate(1, period), Burst: 1}
	case leaky.AlgorithmConcurrency:
		return rules.Bound{Limit: 10, TTL: unit.Duration(period)}
	default:
		return rules.Bound{Limit: 10, Period: unit.Duration(period)}
	}
}

// crowd is an engine with a million keys, and its measurements.
type crowd struct {
	queue.Engine
	used  func(context.Context) (float64, error) // bytes of memory
	notes []string
}

// ruleMillion takes each of a million keys once, on both engines, and then waits until they are forgotten.
func ruleMillion(a leaky.Algorithm) Figure {
	return millionFigure("rule-million-"+string(a), "keys/s, 1,000,000 distinct keys, embedded",
		func(ctx context.Context, c *crowd) (float64, error) {
			r := rules.Rule{Name: "r", Key: "{lane}", Algorithm: a, Bound: millionBound(a), MaxKeys: 4 * million}
			if _, err := c.PutRule(ctx, r, queue.AnyRevision); err != nil {
				return 0, err
			}
			if a == leaky.AlgorithmFixedWindow { // all in one window
				time.Sleep(time.Until(time.Now().Truncate(millionPeriod()).Add(millionPeriod())))
			}
			return takeMillion(ctx, c)
		})
}

var takenKeys atomic.Int64

func takeMillion(ctx context.Context, c *crowd) (float64, error) {
	const each = 100
	v, err := together(ctx, 8, sized(million)/each, func(ctx context.Context) error {
		takes := make([]rules.Take, each)
		for i := range takes {
			takes[i].Key = fmt.Sprintf("user-%09d@example.com", takenKeys.Add(1))
		}
		got, err := c.Take(ctx, "r", takes)
		for i := range got {
			if got[i].Err != nil || !got[i].Allowed {
				return fmt.Errorf("%s: %+v", takes[i].Key, got[i])
			}
		}
		return err
	})
	return each * v, err
}

// appendMillion appends jobs under two rules, each with a key of its own.
var appendMillion = millionFigure("rule-million-append",
	"jobs/s, 250,000 under two rules, all keys distinct, 64 callers, embedded",
	func(ctx context.Context, c *crowd) (float64, error) {
		for _, name := range []string{"user", "route"} {
			r := rules.Rule{
				Name: queueName + "." + name, Algorithm: leaky.AlgorithmMeter, Bound: millionBound(leaky.AlgorithmMeter),
				Key: "{header." + name + "}",
			}
			if _, err := c.PutRule(ctx, r, queue.AnyRevision); err != nil {
				return 0, err
			}
		}
		spec := queue.Spec{
			Name: queueName, Rate: leaky.Unlimited, Capacity: queue.MaxCapacity,
			Rules: []string{queueName + ".user", queueName + ".route"},
		}
		if _, err := c.Put(ctx, spec, queue.AnyRevision); err != nil {
			return 0, err
		}
		return together(ctx, callers, sized(million)/4, func(ctx context.Context) error {
			n := takenKeys.Add(1)
			headers := map[string]string{
				"user": fmt.Sprintf("user-%09d@example.com", n), "route": fmt.Sprintf("route-%09d.example.com", n),
			}
			return appendAll(ctx, c.Engine, []queue.Job{{Queue: queueName, ID: newID(), Payload: payload, Headers: headers}})
		})
	})

func millionFigure(name, measure string, take func(context.Context, *crowd) (float64, error)) Figure {
	return Figure{
		Name: name, Unit: measure, Rounds: 1, Peer: "on Redis",
		Goal: "1,000,000 per minute on both engines",
		Met:  func(ours, peer, _ float64) bool { return min(ours, peer) >= million/60 },
		Setup: func(context.Context) (Measurements, error) {
			var notes []string
			return Measurements{
				Ours: func(ctx context.Context) (float64, error) {
					v, note, err := millionEmbedded(ctx, take)
					notes = append(notes, "embedded: "+note)
					return v, err
				},
				Peer: func(ctx context.Context) (float64, error) {
					s, err := newRedisStore(ctx)
					if err != nil {
						return 0, err
					}
					defer s.Close()
					c := &crowd{
						Engine: s.engine, used: func(ctx context.Context) (float64, error) { return usedMemory(ctx, s.client) },
					}
					v, err := c.live(ctx, take)
					notes = append(notes, "on Redis: "+strings.Join(c.notes, ", "))
					return v, err
				},
				Notes: func() string { return strings.Join(notes, "; ") },
			}, nil
		},
	}
}

// millionEmbedded also measures how long it takes to close and open the file with all keys in it.
func millionEmbedded(
	ctx context.Context, take func(context.Context, *crowd) (float64, error),
) (float64, string, error) {
	dir, err := os.MkdirTemp("", "penstock-bench-")
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "penstock.db")
	e, err := boltq.Open(ctx, path, boltq.Options{})
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = e.Close() }()
	c := &crowd{Engine: e, used: heapUsed}
	rate, err := c.live(ctx, take)
	if err != nil {
		return 0, "", err
	}
	c.notef("the file is %.0f MB", fileSize(path))
	if _, err := take(ctx, c); err != nil {
		return 0, "", err
	}
	before := time.Now()
	if err := e.Close(); err != nil {
		return 0, "", err
	}
	c.notef("filled again, closing took %s", since(before))
	before = time.Now()
	if e, err = boltq.Open(ctx, path, boltq.Options{}); err != nil {
		return 0, "", err
	}
	c.notef("and opening %s, with a file of %.0f MB", since(before), fileSize(path))
	return rate, strings.Join(c.notes, ", "), nil
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

func fileSize(path string) float64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return float64(info.Size()) / 1e6
}

// heapUsed returns the memory that this process keeps, most of it the engine's.
func heapUsed(context.Context) (float64, error) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), nil
}

func (c *crowd) notef(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// live takes all keys and waits until they are forgotten, while others make calls.
func (c *crowd) live(ctx context.Context, take func(context.Context, *crowd) (float64, error)) (float64, error) {
	none, err := c.used(ctx)
	if err != nil {
		return 0, err
	}
	others, err := c.others(ctx)
	if err != nil {
		return 0, err
	}
	time.Sleep(lasting(5 * time.Second))
	c.notef("others waited up to %s before", others())
	if others, err = c.others(ctx); err != nil {
		return 0, err
	}
	rate, err := take(ctx, c)
	if err != nil {
		return 0, err
	}
	done := time.Now()
	c.notef("up to %s meanwhile", others())
	peak, err := c.used(ctx)
	if err != nil {
		return 0, err
	}
	if others, err = c.others(ctx); err != nil {
		return 0, err
	}
	least, at := peak, done
	for least-none > (peak-none)/20 && time.Since(done) < millionPatience() {
		select {
		case <-time.After(lasting(time.Second)):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		now, err := c.used(ctx)
		if err != nil {
			return 0, err
		}
		if now < least-peak/1000 {
			least, at = now, time.Now()
		}
	}
	c.notef("up to %s while they ran out", others())
	c.notef(
		"%.0f MB before, %.0f MB at the peak, %.0f MB %.0f s later", none/1e6, peak/1e6, least/1e6, at.Sub(done).Seconds(),
	)
	return rate, nil
}

// others take and append once a millisecond during the measurement. end stops them and returns the longest call of each
// kind.
func (c *crowd) others(ctx context.Context) (end func() string, err error) {
	if _, err := c.PutRule(ctx, wideMeter("other"), queue.AnyRevision); err != nil {
		return nil, err
	}
	if err := put(ctx, c.Engine, "others", leaky.Unlimited); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	longest := func(call func() error) *time.Duration {
		most := new(time.Duration)
		wg.Go(func() {
			for ctx.Err() == nil {
				before := time.Now()
				if call() != nil {
					return
				}
				*most = max(*most, time.Since(before))
				time.Sleep(time.Millisecond)
			}
		})
		return most
	}
	takes := longest(func() error {
		_, err := c.Take(context.WithoutCancel(ctx), "other", []rules.Take{{Key: "k"}})
		return err
	})
	appends := longest(func() error { return appendOne(context.WithoutCancel(ctx), c.Engine, "others") })
	return func() string {
		cancel()
		wg.Wait()
		return fmt.Sprintf("%s (take) and %s (append)", takes.Round(time.Millisecond), appends.Round(time.Millisecond))
	}, nil
}
