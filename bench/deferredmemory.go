package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/penstock/penstock/queue"
)

// The memory of ingress and drainer must not depend on the number of deferred jobs. Each measurement starts both anew
// and sends the same number of jobs through the ingress to the overflow at full speed, so their heaps grow alike. Only
// the number of jobs that are still deferred differs.
const pushers = 4

func manyDeferred() int64 { return int64(sized(1_000_000)) }
func fewDeferred() int64  { return int64(sized(10_000)) }

// footprint has the resident megabytes of both programs.
type footprint struct{ ingress, drainer float64 }

func (f footprint) sum() float64 { return f.ingress + f.drainer }

// holding defers manyDeferred jobs, keeps count of them deferred, and measures both programs.
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

// pushAside pushes jobs to a queue that stays full.
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
	// All were answered deferred, so they are on the overflow. The engine may not know a few of them, if it did not
	// answer in time.
	info, err := r.engine.Get(ctx, name)
	if err == nil && (info.Deferred > count || info.Deferred < count*9/10) {
		err = fmt.Errorf("%d jobs were answered deferred, the engine knows %d: %s", count, info.Deferred, ingress.said())
	}
	return err
}

// drop removes a queue and its overflow.
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

// quietly returns the memory of both programs once it no longer changes. The drainer must have looked at the head of
// the queue again, which takes a little over 10 s. Then the memory must stay within a quarter of a megabyte for five
// seconds.
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
			return f, errors.New("the memory of ingress and drainer does not settle")
		}
	}
}

func memoryDeferred() Figure {
	var many, few footprint
	return Figure{
		Name: "memory-deferred", Unit: "MB, resident memory of ingress and drainer, 1,000,000 deferred jobs", Rounds: 1,
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
				return fmt.Sprintf("ingress %.1f MB and %.1f MB, drainer %.1f MB and %.1f MB; both pairs had deferred %d jobs "+
					"since they started",
					many.ingress, few.ingress, many.drainer, few.drainer, manyDeferred())
			}
			return m, err
		},
	}
}
