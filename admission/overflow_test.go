package admission

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// runs runs something until the test ends.
func runs(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// overflow is a stream on a NATS of its own, from which jobs come back into the store.
func (l *line) overflow(t *testing.T) *deferred.Stream {
	t.Helper()
	s, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", LazySync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	nc, err := nats.Connect(s.URL(), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	stream, err := deferred.NewStream(nc, deferred.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	runs(t, stream.Run)
	runs(t, deferred.NewReadmitter(l.Engine, stream).Run)
	return stream
}

// leave has n jobs of one queue depart, and returns their ids in that order.
func (l *line) leave(t *testing.T, name string, n int) (ids []string) {
	t.Helper()
	client, number := queue.Client{ID: queue.NewID()}, uint64(0)
	await.Until(t, "they leave", func() bool {
		number++
		got, err := l.Reserve(t.Context(), queue.ReserveRequest{
			Partition: l.Partition(name), Client: client, Number: number, Max: n,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range got.Jobs {
			ids = append(ids, j.ID)
			if _, err := l.Settle(t.Context(), []queue.Settlement{{
				Lease: queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence}, Verdict: queue.Deliver,
			}}); err != nil {
				t.Fatal(err)
			}
		}
		return len(ids) >= n
	})
	return ids
}

// Jobs put aside by a rule of another group come back once and in order, even if the engine's answer was lost, and a
// job that is sent again is a duplicate.
func TestPutAsideOnRedis(t *testing.T) {
	deferring := hour("all.tenants", rules.AwayClosed, 1)
	deferring.Action = rules.Defer
	l := newLine(t, deferring, hour("all.calls", rules.AwayClosed, 9))
	if _, err := l.Put(
		t.Context(),
		queue.Spec{Name: "mail", Rate: leaky.Unlimited, Capacity: 100, Rules: []string{"all.calls", "all.tenants"}}, 0,
	); err != nil {
		t.Fatal(err)
	}
	a, e, _ := l.process(t)
	d := deferred.New(e, l.overflow(t), a.Pass)
	runs(t, d.Run)
	p := NewAppender(a, d)
	send := func(p queue.Appender, id string) queue.Appended {
		t.Helper()
		answers, err := p.Append(t.Context(), []queue.Job{job("mail", id, "acme")})
		if len(answers) != 1 {
			t.Fatalf("%v, %v", answers, err)
		}
		return answers[0]
	}
	aside := func(id string) {
		t.Helper()
		got := send(p, id)
		if name, _, ok := rules.Limited(got.Rules); got.Outcome != queue.Accepted || got.State != queue.Deferred || !ok ||
			name != "all.tenants" {
			t.Fatalf("%s: %+v", id, got)
		}
	}
	if got := send(p, "in"); got.Outcome != queue.Accepted || got.State != queue.Waiting {
		t.Fatalf("%+v", got)
	}

	// Without an overflow it is refused, and not known.
	got := send(NewAppender(a, e), "one")
	if name, wait, ok := rules.Limited(got.Rules); got.Outcome != queue.LimitReached || !ok || name != "all.tenants" ||
		got.RetryAfter != wait || wait < time.Minute {
		t.Errorf("%+v", got)
	}
	if _, err := l.Job(t.Context(), "mail", "one"); !errors.Is(err, queue.ErrUnknownJob) {
		t.Error(err)
	}
	if got := send(NewAppender(a, e), "in"); got.Outcome != queue.Duplicate {
		t.Errorf("%+v", got)
	}

	aside("one")
	lost := l.proxy.SwallowNext(faultproxy.Script("the-lost-one"))
	aside("the-lost-one") // past the engine, which has recorded it too
	if err := lost.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	aside("three")
	for _, id := range []string{"one", "the-lost-one", "three"} {
		// the latter while the engine is not asked
		if got := send(p, id); got.Outcome != queue.Duplicate && (got.Outcome != queue.Accepted ||
			got.State != queue.Deferred) {
			t.Errorf("%s sent again: %+v", id, got)
		}
	}
	if ids := l.leave(t, "mail", 4); !slices.Equal(ids, []string{"in", "one", "the-lost-one", "three"}) {
		t.Errorf("they left as %v", ids)
	}
	await.Until(t, "nothing is left", func() bool {
		info, err := l.Get(t.Context(), "mail")
		return err == nil && info.Deferred == 0 && info.Waiting == 0
	})
	if info, err := l.Get(t.Context(), "mail"); err != nil || info.Delivered != 4 || info.Died != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	for rule, want := range map[string]int64{"all.tenants": 0, "all.calls": 8} {
		if n := left(t, l, rule, "acme"); n != want {
			t.Errorf("%s has %d left, want %d", rule, n, want)
		}
	}
}
