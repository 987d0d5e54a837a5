package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// store is the source of delivered jobs.
type store interface {
	// anew returns an empty engine; the previous one is gone.
	anew(ctx context.Context) (queue.Engine, error)
	// used returns the processor time used outside of this process.
	used(ctx context.Context) time.Duration
	Close()
}

func onRedis(ctx context.Context) (store, error) { return newRedisStore(ctx) }

func (s *redisStore) anew(ctx context.Context) (queue.Engine, error) {
	err := s.again(ctx)
	return s.engine, err
}

func (s *redisStore) used(ctx context.Context) time.Duration { return redisCPU(ctx, s.server) }

// boltStore is an embedded store, each on its own file.
type boltStore struct{ close func() }

func onFile(context.Context) (store, error) { return &boltStore{func() {}}, nil }

func (s *boltStore) anew(ctx context.Context) (queue.Engine, error) {
	s.Close()
	e, closeIt, err := embedded(ctx)
	if err != nil {
		return nil, err
	}
	s.close = closeIt
	return e, nil
}

func (s *boltStore) used(context.Context) time.Duration { return 0 }

func (s *boltStore) Close() {
	s.close()
	s.close = func() {}
}

// full returns an engine whose queue, without a rate, has count jobs for a target.
func full(ctx context.Context, s store, target []byte, count int) (queue.Engine, error) {
	e, err := s.anew(ctx)
	if err != nil {
		return nil, err
	}
	spec := queue.Spec{Name: queueName, Rate: leaky.Unlimited, Capacity: queue.MaxCapacity, Deliver: target}
	if _, err := e.Put(ctx, spec, queue.AnyRevision); err != nil {
		return nil, err
	}
	return e, fill(ctx, e, queueName, count)
}

// drained is a floor of deliveries: the same queue, drained with a handler that does nothing.
func drained(s store, count, concurrency int) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		e, err := full(ctx, s, nil, count)
		if err != nil {
			return 0, err
		}
		return drainFor(ctx, e, count, concurrency)
	}
}

const nothing = "a handler that does nothing"

// bill describes the processor time per job, by consumer.
type bill map[string]string

// meter measures one consumer of processor time.
type meter struct {
	name string
	used func(context.Context) time.Duration
}

// charge runs do for count jobs and notes the processor time.
func (b bill) charge(
	ctx context.Context, who string, count int, servers []meter, do func() (float64, error),
) (float64, error) {
	before := []time.Duration{cpu()}
	for _, s := range servers {
		before = append(before, s.used(ctx))
	}
	v, err := do()
	each := func(d time.Duration) string { return (d / time.Duration(count)).Round(100 * time.Nanosecond).String() }
	text := who + " " + each(cpu()-before[0])
	for i, s := range servers {
		text += " and " + s.name + " " + each(s.used(ctx)-before[i+1])
	}
	b[who] = text
	return v, err
}

func (b bill) String() string {
	return "CPU a job: " + strings.Join(slices.Sorted(maps.Values(b)), "; ")
}
