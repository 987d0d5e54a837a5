package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// takeBack defers count jobs and measures how fast they return to their queue, which is empty by then and has room for
// all. So the figure covers only the way back. Afterwards the jobs are drained and checked by id.
func (r *reservoir) takeBack(ctx context.Context, count int64) (float64, error) {
	if err := r.again(ctx); err != nil {
		return 0, err
	}
	if err := makeFull(ctx, r.engine); err != nil {
		return 0, err
	}
	first := lastID.Load() + 1
	if _, err := r.putAside(ctx, count); err != nil {
		return 0, err
	}
	if _, err := drainFor(ctx, r.engine, 1, 1); err != nil { // the job that made it full
		return 0, err
	}
	if _, err := r.engine.Put(ctx, roomFor(count), queue.AnyRevision); err != nil {
		return 0, err
	}
	took, err := r.readmit(ctx, count)
	if err != nil {
		return 0, err
	}
	if err := r.once(ctx, first, count); err != nil {
		return 0, err
	}
	return float64(count) / took.Seconds(), nil
}

// readmit runs a Readmitter until count jobs have returned, the overflow is empty, and the engine knows of no more jobs
// there. It returns the time from its start to the last job.
func (r *reservoir) readmit(ctx context.Context, count int64) (time.Duration, error) {
	r.seen.awaited, r.seen.all = count, make(chan struct{})
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	start := time.Now()
	go func() { ended <- deferred.NewReadmitter(r.engine, r.stream).Run(run) }()
	end := func(err error) error {
		stop()
		return errors.Join(err, <-ended)
	}
	for before, all := int64(-1), false; !all; {
		select {
		case <-r.seen.all:
			all = true
		case <-time.After(patience):
			came := r.seen.returned.Load()
			if came == before {
				return 0, end(fmt.Errorf("only %d of %d jobs came back", came, count))
			}
			before = came
		case <-ctx.Done():
			return 0, end(ctx.Err())
		}
	}
	took := time.Since(start)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		n, err := r.onStream(ctx, r.stream.Status().Deferred)
		if err != nil {
			return 0, end(err)
		}
		info, err := r.engine.Get(ctx, queueName)
		if err != nil || n == 0 && info.Deferred == 0 {
			return took, end(err)
		}
		if time.Now().After(deadline) {
			return 0, end(fmt.Errorf(
				"all jobs came back; %d messages are left on the overflow, and the engine knows of %d jobs", n, info.Deferred,
			))
		}
	}
}

// once checks that count jobs with consecutive ids from first are in the queue, and that each comes out once.
func (r *reservoir) once(ctx context.Context, first, count int64) error {
	info, err := r.engine.Get(ctx, queueName)
	if err != nil {
		return err
	}
	if info.Waiting != count || info.Returned != count || info.Missing != 0 || info.Dead != 0 {
		return fmt.Errorf(
			"of %d deferred jobs %d came back and %d wait; missing %d, dead %d", count, info.Returned, info.Waiting,
			info.Missing, info.Dead,
		)
	}
	dead, err := r.onStream(ctx, r.stream.Status().Dead)
	if err != nil {
		return err
	}
	if dead > 0 {
		return fmt.Errorf("%d jobs became dead letters on the overflow", dead)
	}
	ids, err := takeOut(ctx, r.engine, int(count))
	if err != nil {
		return err
	}
	came := make([]bool, count)
	for _, id := range ids {
		n, err := strconv.ParseInt(id, 10, 64)
		if at := n - first; err != nil || at < 0 || at >= count || came[at] {
			return fmt.Errorf("job %s came out twice, or was never deferred", id)
		}
		came[n-first] = true
	}
	return nil
}

// takeOut drains count jobs, and returns their ids.
func takeOut(ctx context.Context, e queue.Outflow, count int) ([]string, error) {
	var mu sync.Mutex
	var ids []string
	ctx, cancel := context.WithTimeout(ctx, 10*patience) // ends the drainer, which is no error
	defer cancel()
	err := drain.Run(ctx, e, drain.HandlerFunc(func(_ context.Context, j *drain.Job) error {
		mu.Lock()
		defer mu.Unlock()
		if ids = append(ids, j.ID); len(ids) == count {
			cancel()
		}
		return nil
	}), drain.Options{Concurrency: 1024})
	if err == nil && len(ids) != count {
		err = fmt.Errorf("%d of %d jobs came out", len(ids), count)
	}
	return ids, err
}

// takingBack compares the way back with the least work it needs, which is to append the same jobs to the same engine in
// calls of the same size.
func takingBack(r *reservoir, count int64) Measurements {
	return Measurements{
		Ours: func(ctx context.Context) (float64, error) { return r.takeBack(ctx, count) },
		Floor: func(ctx context.Context) (float64, error) {
			if err := r.again(ctx); err != nil {
				return 0, err
			}
			if err := put(ctx, r.engine, queueName, leaky.Unlimited); err != nil {
				return 0, err
			}
			start := time.Now()
			if err := fill(ctx, r.engine, queueName, int(count)); err != nil {
				return 0, err
			}
			return float64(count) / time.Since(start).Seconds(), nil
		},
		Close: r.Close,
	}
}

var readmitRedis = Figure{
	Name: "readmit-redis", Unit: "jobs/s readmitted into an empty queue",
	Floor: "append, 500 jobs per call", Goal: "10,000/s",
	Met: func(ours, _, _ float64) bool { return ours >= 10_000 },
	Setup: func(ctx context.Context) (Measurements, error) {
		r, err := redisReservoir(ctx)
		return takingBack(r, int64(sized(100_000))), err
	},
}

var readmitEmbedded = Figure{
	Name: "readmit-embedded", Unit: "jobs/s readmitted into an empty queue",
	Floor: "append, 500 jobs per call", Goal: "2,500/s",
	Met: func(ours, _, _ float64) bool { return ours >= 2_500 },
	Setup: func(ctx context.Context) (Measurements, error) {
		r, err := embeddedReservoir(ctx)
		return takingBack(r, int64(sized(50_000))), err
	},
}
