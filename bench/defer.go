package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/deferred"
)

// putAside defers count jobs, one a call. Jobs that bypass the engine, because it did not answer in time, are stored
// too but cost less, so they do not count.
func (r *reservoir) putAside(ctx context.Context, count int64) (float64, error) {
	a := deferred.New(r.engine, r.stream, nil)
	defer background(ctx, a.Run)()
	v, err := together(ctx, callers, count, func(ctx context.Context) error { return deferOne(ctx, a) })
	if err != nil {
		return 0, err
	}
	info, err := r.engine.Get(ctx, queueName)
	if err == nil && (info.Deferred > count || r.seen.stored.Load() != count) {
		err = fmt.Errorf(
			"%d jobs were answered deferred; the engine knows %d, and %d were stored", count, info.Deferred,
			r.seen.stored.Load(),
		)
	}
	return v * float64(info.Deferred) / float64(count), err
}

// deferring compares jobs deferred from a full queue with messages that publish stores in another stream, one for each
// job.
func deferring(
	r *reservoir, count, messages int64, publish func(context.Context, jetstream.JetStream, int64) (float64, error),
) Measurements {
	packed, spent := 0.0, time.Duration(0)
	return Measurements{
		Ours: func(ctx context.Context) (float64, error) {
			if err := r.again(ctx); err != nil {
				return 0, err
			}
			if err := makeFull(ctx, r.engine); err != nil {
				return 0, err
			}
			before := r.cpu(ctx)
			v, err := r.putAside(ctx, count)
			packed, spent = float64(r.seen.stored.Load())/float64(max(
				1, r.seen.messages.Load(),
			)), (r.cpu(ctx)-before)/time.Duration(count)
			return v, err
		},
		Floor: func(ctx context.Context) (float64, error) {
			_, err := r.js.CreateStream(ctx, jetstream.StreamConfig{
				Name: plain, Subjects: []string{plain}, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
				MaxBytes: overflowBytes,
			})
			if err != nil {
				return 0, err
			}
			v, err := publish(ctx, r.js, messages)
			if err != nil {
				return 0, err
			}
			n, err := r.onStream(ctx, plain)
			if err == nil && n != uint64(messages) {
				err = fmt.Errorf("%d messages were published, %d are stored", messages, n)
			}
			if err != nil {
				return 0, err
			}
			return v, r.js.DeleteStream(ctx, plain)
		},
		Notes: func() string {
			return fmt.Sprintf("%.1f jobs a message; CPU a job, all servers included: %v", packed, spent)
		},
		Close: r.Close,
	}
}

const plain = "plain" // a stream and its subject

// publishAhead publishes from one goroutine, with as many unacknowledged messages as the other figures have callers.
func publishAhead(ctx context.Context, js jetstream.JetStream, count int64) (float64, error) {
	start := time.Now()
	for range count {
		if _, err := js.PublishAsync(plain, payload, jetstream.WithStallWait(patience)); err != nil {
			return 0, err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return float64(count) / time.Since(start).Seconds(), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func publishOneByOne(ctx context.Context, js jetstream.JetStream, count int64) (float64, error) {
	return together(ctx, callers, count, func(ctx context.Context) error {
		_, err := js.Publish(ctx, plain, payload)
		return err
	})
}

var deferRedis = Figure{
	Name: "defer-redis", Unit: "jobs/s deferred, 64 callers, 1 job per call",
	Floor: "messages/s, PublishAsync, 64 in flight", Goal: "20,000/s",
	Met: func(ours, _, _ float64) bool { return ours >= 20_000 },
	Setup: func(ctx context.Context) (Measurements, error) {
		r, err := redisReservoir(ctx)
		return deferring(r, int64(sized(100_000)), int64(sized(100_000)), publishAhead), err
	},
}

var deferEmbedded = Figure{
	Name: "defer-embedded", Unit: "jobs/s deferred, 64 callers, fsync before ack",
	Floor: "messages/s, Publish by 64 callers, SyncAlways", Goal: "3 x the floor",
	Met: func(ours, _, floor float64) bool { return ours >= 3*floor },
	Setup: func(ctx context.Context) (Measurements, error) {
		r, err := embeddedReservoir(ctx)
		return deferring(r, int64(sized(50_000)), int64(sized(8_000)), publishOneByOne), err
	},
}
