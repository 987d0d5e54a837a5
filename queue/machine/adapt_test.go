package machine

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// An adapted rate, its state and its changes outlive the process, and so does the end of adaptation.
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
	if i, err := e.Get(ctx, "q"); err != nil || i.Rate.PerSecond() != 3.75 || len(i.RateChanges) != 2 {
		t.Fatal(i.Rate, i.RateChanges, err)
	}
	spec.Adapt = queue.Adapt{}
	if _, err := e.Put(ctx, spec, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	same()
	if i, err := e.Get(ctx, "q"); err != nil || i.Rate != leaky.PerSecond(10) || i.RateChanges != nil {
		t.Fatal(i.Rate, i.RateChanges, err)
	}
}

// A process that dies after the rate was lowered does not repeat a burst from just before. The bucket on file is in
// intervals of the rate on file.
func TestLoweredRateIsHeldOverAReopening(t *testing.T) {
	ctx, now := context.Background(), leaky.Instant(1_790_000_000_000_000)
	const burst = 100
	spec := queue.Spec{
		Name: "q", Rate: leaky.PerSecond(10), Burst: burst,
		Adapt: queue.Adapt{Floor: leaky.PerSecond(1), Ceiling: leaky.PerSecond(20)},
	}
	e := newEngine(func() leaky.Instant { return now })
	if _, err := e.Put(ctx, spec, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * burst {
		if _, err := e.Append(ctx, []queue.Job{{Queue: "q", ID: fmt.Sprint(i), Payload: []byte("1")}}); err != nil {
			t.Fatal(err)
		}
	}
	now += 60_000_000
	res, err := e.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: 1, Max: 3 * burst})
	if err != nil || len(res.Jobs) != burst {
		t.Fatal(len(res.Jobs), err)
	}
	now += 10_000
	v := res.Jobs[burst-1]
	s, err := e.Settle(ctx, []queue.Settlement{{
		Lease: queue.Lease{Queue: "q", ID: v.ID, Fence: v.Fence}, Verdict: queue.Throttle, Reason: "slow down",
	}})
	if err != nil || s[0].Effect.From == s[0].Effect.To {
		t.Fatal(s, err)
	}
	next := func() leaky.Instant {
		e.mu.Lock() // the answer of Settle may come before the rest of its batch is applied
		defer e.mu.Unlock()
		q := e.queues["q"]
		return q.pacer.Next(q.bucket, now)
	}
	before := next()
	e.crash() // closing would also keep the exact state
	if after := next(); after < before {
		t.Errorf("opened again the next departs %v before it would have", before.Sub(after))
	}
	res, err = e.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: 1, Max: 3 * burst})
	if err != nil || len(res.Jobs) > 1 {
		t.Errorf("%d depart behind a burst of %d: %v", len(res.Jobs), burst, err)
	}
}
