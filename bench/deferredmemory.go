package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/penstock/penstock/queue"
)

// The memory of ingress and drainer must not depend on how much is deferred. In either
// case both were just started, and the same number of jobs has gone through the ingress
// to the overflow as fast as it takes them, so that their heaps have grown for the same
// reasons; what differs is how many of them are still deferred.
const pushers = 4

func manyDeferred() int64 { return int64(sized(1_000_000)) }
func fewDeferred() int64  { return int64(sized(10_000)) }

// footprint is how many megabytes both have in memory.
type footprint struct{ ingress, drainer float64 }

func (f footprint) sum() float64 { return f.ingress + f.drainer }

// holding defers manyDeferred jobs, of which count are kept, and looks at both
// programs.
func (r *reservoir) holding(ctx context.Context, dir string, count int64) (f footprint, err error) {
	if err := r.again(ctx); err != nil {
		return f, err
	}
	flags := []string{"--redis", r.redis.server.URL(), "--nats", r.url}
	ingress, err := start(ctx, dir, "ingress", flags...)
	if err != nil {
		return f, err
	}
	defer ingress.stop()
	drainer, err := start(ctx, dir, "drainer", flags...)
	if err != nil {
		return f, err
	}
	defer drainer.stop()
	if dropped := manyDeferred() - count; dropped > 0 {
		if err := r.pushAside(ctx, ingress, "dropped1", dropped); err != nil {
			return f, err
		}
		if err := r.drop(ctx, "dropped1"); err != nil {
			return f, err
		}
	}
	if err := r.pushAside(ctx, ingress, queueName, count); err != nil {
		return f, err
	}
	return quietly(ctx, ingress, drainer)
}

// pushAside pushes jobs to a queue that is full and stays so.
func (r *reservoir) pushAside(ctx context.Context, ingress *program, name string, count int64) error {
	spec := roomFor(1)
	spec.Name = name
	if _, err := r.engine.Put(ctx, spec, queue.AnyRevision); err != nil {
		return err
	}
	if err := r.engine.Pause(ctx, name, queue.Pause{Reason: "stays full"}); err != nil {
		return err
	}
	if err := appendOne(ctx, r.engine, name); err != nil {
		return err
	}
	if err := pushDeferred(ctx, ingress.url+"/v1/queues/"+name+"/jobs", count); err != nil {
		return err
	}
	// All were answered deferred, so they are on the overflow. A few may be there that
	// the engine knows nothing of, if it was kept from answering in time.
	info, err := r.engine.Get(ctx, name)
	if err == nil && (info.Deferred > count || info.Deferred < count*9/10) {
		err = fmt.Errorf("%d jobs were answered deferred, the engine knows of %d: %s", count, info.Deferred, ingress.said())
	}
	return err
}

// drop removes a queue and all that is on the overflow.
func (r *reservoir) drop(ctx context.Context, name string) error {
	if err := r.engine.Delete(ctx, name, queue.AnyRevision, true); err != nil {
		return err
	}
	stream, err := r.js.Stream(ctx, r.stream.Status().Deferred)
	if err != nil {
		return err
	}
	return stream.Purge(ctx)
}

// quietly returns what both programs need once that no longer changes. No sooner than
// the drainer has looked at the head of the queue again, which it does every 10 s and a
// bit; after that, five seconds without a change by a quarter of a megabyte are taken
// for rest.
func quietly(ctx context.Context, ingress, drainer *program) (f footprint, err error) {
	const still = 0.25
	looks, rest := lasting(15*time.Second), steps(5)
	begin := time.Now()
	var low, high footprint
	for same := 0; ; {
		select {
		case <-time.After(lasting(time.Second)):
		case <-ctx.Done():
			return f, ctx.Err()
		}
		if f.ingress, err = ingress.resident(); err != nil {
			return f, err
		}
		if f.drainer, err = drainer.resident(); err != nil {
			return f, err
		}
		low = footprint{min(low.ingress, f.ingress), min(low.drainer, f.drainer)}
		high = footprint{max(high.ingress, f.ingress), max(high.drainer, f.drainer)}
		if same++; same == 1 || high.ingress-low.ingress > still || high.drainer-low.drainer > still {
			low, high, same = f, f, 1
		}
		switch waited := time.Since(begin); {
		case waited > looks && same > rest:
			return f, nil
		case waited > 10*patience:
			return f, errors.New("the memory of ingress and drainer does not come to rest")
		}
	}
}

func memoryDeferred() Figure {
	var many, few footprint
	return Figure{
		Name: "memory-deferred", Unit: "MB resident, ingress and drainer, 1,000,000 jobs deferred", Rounds: 1,
		Floor: "with 10,000", Goal: "each within 10 MB of the floor",
		Met: func(_, _, _ float64) bool {
			return math.Abs(many.ingress-few.ingress) <= 10 && math.Abs(many.drainer-few.drainer) <= 10
		},
		Setup: func(ctx context.Context) (Measurements, error) {
			r, err := redisReservoir(ctx)
			m := Measurements{Close: r.Close}
			if err != nil {
				return m, err
			}
			dir, err := programs(ctx)
			m.Ours = func(ctx context.Context) (_ float64, err error) {
				many, err = r.holding(ctx, dir, manyDeferred())
				return many.sum(), err
			}
			m.Floor = func(ctx context.Context) (_ float64, err error) {
				few, err = r.holding(ctx, dir, fewDeferred())
				return few.sum(), err
			}
			m.Notes = func() string {
				return fmt.Sprintf("ingress %.1f MB and %.1f MB, drainer %.1f MB and %.1f MB; either pair had deferred %d jobs "+
					"since its start",
					many.ingress, few.ingress, many.drainer, few.drainer, manyDeferred())
			}
			return m, err
		},
	}
}
