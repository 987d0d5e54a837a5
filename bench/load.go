package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// Every figure uses 256-byte payloads that do not compress, ids of 26 characters, and queue names of 8.
const (
	payloadBytes = 256
	queueName    = "emailabc"
	callers      = 64
)

var payload = func() []byte {
	b := make([]byte, payloadBytes)
	_, _ = rand.Read(b)
	return b
}()

var lastID atomic.Int64

func newID() string { return idOf(lastID.Add(1)) }

func idOf(n int64) string { return fmt.Sprintf("%026d", n) }

// together runs n workers until they have done count operations, and returns the operations per second.
func together[N int | int64](ctx context.Context, n int, count N, do func(ctx context.Context) error) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range n {
		wg.Go(func() {
			for next.Add(1) <= int64(count) && ctx.Err() == nil {
				if err := do(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return float64(count) / time.Since(start).Seconds(), nil
}

// redisStore is a server with a store on it.
type redisStore struct {
	server *redistest.Server
	client *redis.Client
	engine *redisq.Engine
	close  []func()
}

func newRedisStore(ctx context.Context) (*redisStore, error) {
	server, err := redistest.Start(ctx, redistest.Options{})
	if err != nil {
		return nil, err
	}
	s := &redisStore{server: server, close: []func(){func() { _ = server.Close() }}}
	s.client = redis.NewClient(&redis.Options{
		Addr: server.Addr(), PoolSize: callers, MaxRetries: -1, ContextTimeoutEnabled: true,
	})
	s.close = append(s.close, func() { _ = s.client.Close() }, func() { _ = s.engine.Close() })
	if s.engine, err = redisq.OpenClient(ctx, s.client, redisq.Options{Init: true}); err != nil {
		s.close = s.close[:2]
		s.Close()
		return nil, err
	}
	return s, nil
}

// again empties the server and makes a new store on it, so that rounds do not affect one another.
func (s *redisStore) again(ctx context.Context) error {
	_ = s.engine.Close()
	if err := s.client.FlushDB(ctx).Err(); err != nil {
		return err
	}
	e, err := redisq.OpenClient(ctx, s.client, redisq.Options{Init: true})
	if err != nil {
		return err
	}
	s.engine = e
	return nil
}

func (s *redisStore) Close() {
	for i := len(s.close) - 1; i >= 0; i-- {
		s.close[i]()
	}
}

// put makes a large queue.
func put(ctx context.Context, e queue.Specs, name string, rate leaky.Rate) error {
	_, err := e.Put(ctx, queue.Spec{Name: name, Rate: rate, Capacity: queue.MaxCapacity}, queue.AnyRevision)
	return err
}

// appendOne appends a new job, which must be accepted.
func appendOne(ctx context.Context, e queue.Appender, name string) error {
	a, err := e.Append(ctx, []queue.Job{{Queue: name, ID: newID(), Payload: payload}})
	if err != nil {
		return err
	}
	if a[0].Outcome != queue.Accepted {
		return notAccepted(a[0])
	}
	return nil
}

func notAccepted(a queue.Appended) error {
	if a.Err != nil {
		return a.Err
	}
	return fmt.Errorf("a job was not accepted: %v", a.Outcome)
}

// fill appends count jobs as fast as it can.
func fill(ctx context.Context, e queue.Appender, name string, count int) error {
	for left := count; left > 0; left -= coalesce.MaxItems {
		if err := appendMany(ctx, e, name, min(left, coalesce.MaxItems)); err != nil {
			return err
		}
	}
	return nil
}

func appendMany(ctx context.Context, e queue.Appender, name string, n int) error {
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = queue.Job{Queue: name, ID: newID(), Payload: payload}
	}
	return appendAll(ctx, e, jobs)
}

// appendAll appends jobs, which must all be accepted.
func appendAll(ctx context.Context, e queue.Appender, jobs []queue.Job) error {
	answers, err := e.Append(ctx, jobs)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.Outcome != queue.Accepted {
			return notAccepted(a)
		}
	}
	return nil
}

// cpu returns the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
