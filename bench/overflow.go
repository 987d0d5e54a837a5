package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// reservoir is a store with its overflow. Every round makes both again.
type reservoir struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	url   string      // of NATS; empty when NATS is in this process
	redis *redisStore // nil when embedded
	store func(context.Context) (queue.Engine, error)
	close []func()

	engine queue.Engine
	stream *deferred.Stream
	end    func() // of the stream
	seen   *seen
}

// redisReservoir is a Redis and a NATS on loopback. Like nats-server by default, both let the operating system decide
// when writes reach the disk.
func redisReservoir(ctx context.Context) (*reservoir, error) {
	s, err := newRedisStore(ctx)
	if err != nil {
		return &reservoir{}, err
	}
	r := &reservoir{redis: s, close: []func(){s.Close}, store: func(ctx context.Context) (queue.Engine, error) {
		err := s.again(ctx)
		return s.engine, err
	}}
	return r, r.start(ctx, natsserver.Options{Listen: "127.0.0.1:0", LazySync: true})
}

// embeddedReservoir is the setup of `penstock up`: all in this process, and everything on disk before it is answered.
func embeddedReservoir(ctx context.Context) (*reservoir, error) {
	closeStore := func() {}
	r := &reservoir{close: []func(){func() { closeStore() }}, store: func(ctx context.Context) (queue.Engine, error) {
		closeStore()
		e, closeIt, err := embedded(ctx)
		if err != nil {
			closeIt = func() {}
		}
		closeStore = closeIt
		return e, err
	}}
	return r, r.start(ctx, natsserver.Options{})
}

func (r *reservoir) start(ctx context.Context, o natsserver.Options) (err error) {
	if o.Dir, err = os.MkdirTemp("", "penstock-bench-js-"); err != nil {
		return err
	}
	r.close = append(r.close, func() { _ = os.RemoveAll(o.Dir) })
	server, err := natsserver.Start(ctx, o)
	if err != nil {
		return err
	}
	r.close, r.url = append(r.close, server.Stop), server.URL()
	if r.url == "" {
		r.nc, err = server.Connect()
	} else {
		r.nc, err = nats.Connect(r.url, nats.ReconnectBufSize(-1))
	}
	if err != nil {
		return err
	}
	r.close = append(r.close, r.nc.Close)
	r.js, err = jetstream.New(
		r.nc, jetstream.WithPublishAsyncMaxPending(callers), jetstream.WithPublishAsyncTimeout(patience),
		jetstream.WithDefaultTimeout(patience),
	)
	return err
}

const (
	overflowBytes = 4 << 30          // more than any figure puts on the overflow
	patience      = 30 * time.Second // for things that take a moment, unless something is wrong
)

// warnings logs problems that no caller sees.
var warnings = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))

// again makes a new store and a new overflow.
func (r *reservoir) again(ctx context.Context) (err error) {
	if err := r.leave(ctx); err != nil {
		return err
	}
	if r.engine, err = r.store(ctx); err != nil {
		return err
	}
	r.seen = &seen{}
	stream, err := deferred.NewStream(r.nc, deferred.Options{MaxBytes: overflowBytes, Observer: r.seen, Logger: warnings})
	if err != nil {
		return err
	}
	if err := stream.Open(ctx); err != nil {
		return err
	}
	r.stream, r.end = stream, background(ctx, stream.Run)
	return nil
}

// background runs run until stop is called; stop waits for its end.
func background(ctx context.Context, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// leave removes the last round's streams from NATS.
func (r *reservoir) leave(ctx context.Context) error {
	if r.stream == nil {
		return nil
	}
	names := r.stream.Status()
	r.end()
	r.stream = nil
	for _, name := range []string{names.Deferred, names.Dead} {
		if err := r.js.DeleteStream(ctx, name); err != nil {
			return fmt.Errorf("deleting %s: %w", name, err)
		}
	}
	return nil
}

func (r *reservoir) Close() {
	if r.stream != nil {
		r.end()
	}
	for i := len(r.close) - 1; i >= 0; i-- {
		r.close[i]()
	}
}

// cpu returns the processor time of all processes involved; NATS is in this process.
func (r *reservoir) cpu(ctx context.Context) time.Duration {
	if r.redis == nil {
		return cpu()
	}
	return cpu() + redisCPU(ctx, r.redis.server)
}

// onStream returns the number of messages in a stream.
func (r *reservoir) onStream(ctx context.Context, name string) (uint64, error) {
	s, err := r.js.Stream(ctx, name)
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.Msgs, nil
}

// seen counts the events on the overflow.
type seen struct {
	deferred.NoObserver
	messages, stored, returned atomic.Int64

	awaited int64         // number of jobs that should come back
	all     chan struct{} // closed when they have come back
}

func (s *seen) Stored(_ string, jobs int, _ time.Duration, err error) {
	if err == nil {
		s.messages.Add(1)
		s.stored.Add(int64(jobs))
	}
}

func (s *seen) Returned(_ string, jobs int) {
	n := s.returned.Add(int64(jobs))
	if s.all != nil && n >= s.awaited && n-int64(jobs) < s.awaited {
		close(s.all)
	}
}

// roomFor returns a queue that can readmit count jobs at once, and whose jobs may wait.
func roomFor(count int64) queue.Spec {
	s := queue.Spec{
		Name: queueName, Rate: leaky.Unlimited, Overflow: queue.Defer,
		Deferred: queue.Deferral{MaxJobs: queue.MaxMaxDeferred},
	}
	s.Capacity = count
	if count > 1 {
		s.Capacity = 3 * count // half of it is for returning jobs
	}
	return s
}

// makeFull makes a queue of one place and fills it.
func makeFull(ctx context.Context, e queue.Engine) error {
	if _, err := e.Put(ctx, roomFor(1), queue.AnyRevision); err != nil {
		return err
	}
	return appendOne(ctx, e, queueName)
}

// deferOne appends a new job, which must be deferred.
func deferOne(ctx context.Context, a queue.Appender) error {
	answers, err := a.Append(ctx, []queue.Job{{Queue: queueName, ID: newID(), Payload: payload}})
	if err != nil {
		return err
	}
	if a := answers[0]; a.Outcome != queue.Accepted || a.State != queue.Deferred {
		return fmt.Errorf("a job was not deferred: %w (%v, %v)", notAccepted(a), a.Outcome, a.State)
	}
	return nil
}
