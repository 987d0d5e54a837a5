package pull_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// slow delays the engine's grants, and signals on held, which has room for one, that it does.
type slow struct {
	pull.Engine
	held, hold chan struct{}
}

func (s slow) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	res, err := s.Engine.Reserve(ctx, r)
	if len(res.Jobs) == 0 {
		return res, err
	}
	select {
	case s.held <- struct{}{}:
	default:
	}
	<-s.hold
	return res, err
}

// An answer that comes too late is useless: the job is released, and granted again.
func TestLate(t *testing.T) {
	e := &tardy{}
	b := start(t, pull.Options{}, func(of pull.Engine) pull.Engine { e.Engine = of; return e })
	b.put("q", "10/s", func(s *queue.Spec) { s.Slack = unit.Duration(time.Minute); s.Lease = unit.Duration(time.Hour) })
	b.append("q", "a")
	b.take("q", 1, time.Hour, "a")
	b.counts.await(func() bool { return b.counts.released[pull.Late] == 1 && b.counts.handed == 1 })
}

// tardy claims that its first grant departed long ago.
type tardy struct {
	pull.Engine
	once sync.Once
}

func (e *tardy) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	res, err := e.Engine.Reserve(ctx, r)
	if len(res.Jobs) > 0 {
		e.once.Do(func() { res.Jobs[0].In = -time.Minute - time.Second })
	}
	return res, err
}

// A lost reply loses no job.
func TestLostReply(t *testing.T) {
	e := &lossy{}
	b := start(t, pull.Options{}, func(of pull.Engine) pull.Engine { e.Engine = of; return e })
	b.put("q", "unlimited")
	b.append("q", "a", "b")
	b.take("q", 9, time.Hour, "a", "b")
}

// Nor is a job lost when the store cannot be reached for the repeated request.
func TestLostReplyAndUnreachableStore(t *testing.T) {
	e := &lossy{away: true}
	b := start(t, pull.Options{}, func(of pull.Engine) pull.Engine { e.Engine = of; return e })
	b.put("q", "unlimited")
	b.append("q", "a", "b")
	b.take("q", 9, time.Minute, "a", "b")
}

// lossy loses its first reply, and may be unreachable for the next request.
type lossy struct {
	pull.Engine
	away     bool
	requests atomic.Int64
}

func (e *lossy) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	switch n := e.requests.Add(1); {
	case n == 1:
		_, _ = e.Engine.Reserve(ctx, r)
		return queue.Reserved{}, queue.ErrOutcomeUnknown
	case n == 2 && e.away:
		return queue.Reserved{}, queue.ErrUnavailable
	}
	return e.Engine.Reserve(ctx, r)
}

// While the store is away a request waits, and gets an error once its wait is over.
func TestStoreAway(t *testing.T) {
	b := start(t, pull.Options{}, func(e pull.Engine) pull.Engine { return away{e} })
	b.put("q", "unlimited")
	if _, err := b.dispatcher.Lease(b.ctx, pull.Request{
		Queue: "q", Max: 1, Wait: 50 * time.Millisecond,
	}); !errors.Is(err, queue.ErrUnavailable) {
		t.Error(err)
	}
}

type away struct{ pull.Engine }

func (away) Reserve(context.Context, queue.ReserveRequest) (queue.Reserved, error) {
	return queue.Reserved{}, queue.ErrUnavailable
}
