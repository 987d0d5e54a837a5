package machine

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// An adapted rate, all that it goes by, and its changes outlive the process; so does that it is no more.
func TestAdaptedRateOutlivesTheProcess(t *testing.T) {
	ctx, now := context.Background(), leaky.Instant(1_790_000_000_000_000)
	spec := queue.Spec{
		Name: "q", Rate: leaky.PerSecond(10),
		Adapt: queue.Adapt{Floor: leaky.PerSecond(2), Ceiling: leaky.PerSecond(20)},
	}
	e := newEngine(func() leaky.Instant { return now })
	if _, err := e.Put(ctx, spec, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Append(ctx, []queue.Job{
		{Queue: "q", ID: "a", Payload: []byte("1")}, {Queue: "q", ID: "b", Payload: []byte("2")},
	}); err != nil {
		t.Fatal(err)
	}
	throttled := func(number uint64) {
		t.Helper()
		now += 1_000_000
		res, err := e.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: number, Max: 1})
		if err != nil || len(res.Jobs) != 1 {
			t.Fatal(res, err)
		}
		now += 100_000
		v := res.Jobs[0]
		s, err := e.Settle(ctx, []queue.Settlement{{
			Lease: queue.Lease{Queue: "q", ID: v.ID, Fence: v.Fence}, Verdict: queue.Throttle, Reason: "slow down",
		}})
		if err != nil || s[0].Effect.From == s[0].Effect.To {
			t.Fatal(s, err)
		}
	}
	same := func() {
		t.Helper()
		e.mu.Lock() // the answer of Settle may come before the rest of its batch is applied
		before, state := e.queues["q"].adapted, e.queues["q"].pacer
		e.mu.Unlock()
		now += leaky.Instant(time.Hour.Microseconds())
		e.reopen()
		if q := e.queues["q"]; !reflect.DeepEqual(q.adapted, before) || q.pacer != state {
			t.Fatalf("opened again it has %+v, and had %+v", q.adapted, before)
		}
	}
	throttled(1)
	same()
	throttled(2)
	same()
	spec.Capacity = 5
	if _, err := e.Put(ctx, spec, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	same()
	if i, err := e.Get(ctx, "q"); err != nil || i.Rate.PerSecond() != 3.75 || len(i.Adaptions) != 2 {
		t.Fatal(i.Rate, i.Adaptions, err)
	}
	spec.Adapt = queue.Adapt{}
	if _, err := e.Put(ctx, spec, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	same()
	if i, err := e.Get(ctx, "q"); err != nil || i.Rate != leaky.PerSecond(10) || i.Adaptions != nil {
		t.Fatal(i.Rate, i.Adaptions, err)
	}
}
