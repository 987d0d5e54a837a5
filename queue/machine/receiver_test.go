package machine

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// The receiver's state survives reopening: a stop, an open circuit, and the stop of a lane.
func TestStopsSurviveReopening(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("stopped", "10/s")
	b.MustPut("down", "10/s", func(s *queue.Spec) { s.Circuit.Failures = 1 })
	b.MustPut("lane", "10/s", func(s *queue.Spec) { s.Lanes.Burst = 3; s.Lanes.Rate = s.Rate })
	b.AppendTo("stopped", 0, 2)
	b.MustSettle(queue.Throttle, b.MustReserve(1))
	b.AppendTo("down", 0, 2)
	b.MustSettle(queue.Down, b.MustReserve(1))
	b.MustAppend(queue.Job{Queue: "lane", ID: "x", Lane: "x"}, queue.Job{Queue: "lane", ID: "y", Lane: "y"})
	list := enginetest.Settlements(queue.Throttle, b.MustReserve(1))
	list[0].LaneOnly = true
	if out, err := b.Settle(context.Background(), list); err != nil || out[0].Effect.Stopped != time.Minute {
		t.Fatalf("%+v, %v", out, err)
	}
	look := func() (said [3]any) {
		for i, name := range []string{"stopped", "down"} {
			info := b.MustGet(name)
			if info.Stop.Until.IsZero() || info.Circuit.Open() != (name == "down") {
				t.Errorf("%s: %+v %+v", name, info.Stop, info.Circuit)
			}
			said[i] = []any{info.Stop, info.Circuit, info.Next, info.Throttled, info.Down}
		}
		_, lane, err := b.Lane(context.Background(), "lane", "x")
		if err != nil || lane.Stop.IsZero() {
			t.Errorf("%+v, %v", lane, err)
		}
		said[2] = lane.Stop
		return said
	}
	before := look()
	b.reopen()
	if after := look(); !reflect.DeepEqual(before, after) {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	b.Advance(500 * time.Millisecond)
	if got := b.MustReserve(9); len(got) != 1 || got[0].ID != "y" {
		t.Errorf("granted %+v", got)
	}
	b.Advance(500 * time.Millisecond)
	if got := b.MustReserve(9); len(got) != 1 || got[0].Queue != "down" {
		t.Errorf("granted %+v, want one probe", got)
	}
	b.Advance(59 * time.Second)
	granted := map[string]int{}
	for _, r := range b.MustReserve(9) {
		granted[r.Queue]++
	}
	if granted["stopped"] != 1 || granted["lane"] != 1 {
		t.Errorf("granted %v", granted)
	}
}

// An impossible instant in the receiver's state is ignored: it neither stops a queue nor prevents stops.
func TestImpossibleInstantsAreIgnored(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "10/s")
	b.AppendTo("q", 0, 2)
	b.Engine.mu.Lock()
	b.queues["q"].receiver.throttledUntil = b.Engine.now().Add(48 * time.Hour)
	b.Engine.mu.Unlock()
	b.MustSettle(queue.Throttle, b.MustReserve(1)) // so that it is on file
	b.reopen()
	b.Advance(time.Minute)
	list := enginetest.Settlements(queue.Throttle, b.MustReserve(1))
	list[0].Untold, list[0].After = true, 0
	if out, err := b.Settle(context.Background(), list); err != nil || out[0].Effect.Stopped < time.Second {
		t.Errorf("%+v, %v; want a stop of a second or more", out, err)
	}
}

// A learned rate outlives the process.
func TestLearnedRateOutlivesTheProcess(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "10/s", func(s *queue.Spec) { s.Learn = "openai" })
	b.AppendTo("q", 0, 2)
	list := enginetest.Settlements(queue.Deliver, b.MustReserve(1))
	list[0].Budget = queue.Budget{Remaining: 4, Reset: 50 * time.Second}
	if out, err := b.Settle(context.Background(), list); err != nil || out[0].Effect.To.PerSecond() > 0.11 {
		t.Fatalf("%+v, %v", out, err)
	}
	before := b.queues["q"].adapted
	b.reopen()
	if q := b.queues["q"]; !reflect.DeepEqual(q.adapted, before) || q.pacer.Rate != before.Rate ||
		before.learns != "openai" {
		t.Fatalf("opened again it has %+v, and had %+v", q.adapted, before)
	}
}

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
