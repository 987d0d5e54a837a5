package drain_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// distant is an engine at the other end of a network.
type distant struct {
	queue.Outflow
	trip func() time.Duration
}

func (d distant) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	time.Sleep(d.trip())
	defer func() { time.Sleep(d.trip()) }()
	return d.Outflow.Reserve(ctx, r)
}

func (d distant) Settle(ctx context.Context, s []queue.Settlement) ([]queue.Settled, error) {
	time.Sleep(d.trip())
	defer func() { time.Sleep(d.trip()) }()
	return d.Outflow.Settle(ctx, s)
}

// Drainers under load are replaced one after another, at any moment between two departures. Every slot is used, once,
// by the job whose turn it is.
func TestARolloutLosesNoSlot(t *testing.T) {
	for _, c := range []struct {
		name     string
		rate     int64
		replaced int
	}{
		{"14 a second", 14, 20}, {"100 a second", 100, 100}, {"1000 a second", 1000, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rate := leaky.PerSecond(c.rate)
				e, err := boltq.OpenMemory(t.Context(), boltq.Options{
					Now: func() leaky.Instant { return leaky.Instant(time.Now().UnixMicro()) }, Simulated: true,
				})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = e.Close() }()
				random := rand.New(rand.NewPCG(1, uint64(c.rate)))
				upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
				outflow := distant{e, func() time.Duration { return time.Millisecond }}

				n := int(c.rate) * (c.replaced + 3)
				put(t, e, queue.Spec{Name: "q", Rate: rate, Capacity: int64(n)})
				for i := 0; i < n; i += 500 {
					push(t, e, "q", i, min(500, n-i))
				}
				r, o := newRecord(0), drain.Options{PlainTimers: true}
				drainers := [3]*running{}
				for i := range drainers {
					drainers[i] = start(outflow, drain.HandlerFunc(r.handle), o)
				}
				for i := range c.replaced {
					time.Sleep(500*time.Millisecond + upTo(100*time.Millisecond))
					k := i % len(drainers)
					drainers[k].finish(t)
					time.Sleep(upTo(50 * time.Millisecond)) // a process takes a while to start
					drainers[k] = start(outflow, drain.HandlerFunc(r.handle), o)
				}
				time.Sleep(time.Second)
				starts := r.starts()
				for _, d := range drainers {
					d.finish(t)
				}
				for i := 1; i < len(starts); i++ {
					if gap := starts[i] - starts[i-1]; gap > rate.Interval()*3/2 {
						t.Errorf("no job started for %v, from %v on", gap, starts[i-1])
					}
				}
				r.once(t, r.count())
				if v := (law.Law{Rate: rate, Slack: queue.LeastSlack}).Judge(law.At(starts)); !v.Held {
					t.Errorf("%d starts in %v, allowed %d", v.Worst.Starts, v.Worst.Width, v.Worst.Allowed)
				}
			})
		})
	}
}
