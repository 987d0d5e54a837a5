package redisq

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// What each drainer was granted lately is known, of all partitions together, and goes as it stops. A repeated request
// counts once.
func TestDrainersAreKnownByWhatTheyAreGranted(t *testing.T) {
	t.Parallel()
	at := leaky.Instant(1_800_000_000_000_000)
	ctx, c := t.Context(), redistest.New(t, redistest.Options{}).Client()
	e, err := OpenClient(ctx, c, Options{Init: true, Partitions: 2, Now: func() leaky.Instant { return at }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	for i := range 8 { // they are in both partitions
		name := fmt.Sprint("q", i)
		spec := queue.Spec{Name: name, Rate: leaky.Unlimited, Capacity: 1000}
		if _, err := e.Put(ctx, spec, queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
		var jobs []queue.Job
		for k := range 100 {
			jobs = append(jobs, queue.Job{Queue: name, ID: fmt.Sprint(k)})
		}
		if _, err := e.Append(ctx, jobs); err != nil {
			t.Fatal(err)
		}
	}
	number := uint64(0)
	reserve := func(client string, n int) {
		t.Helper()
		number++
		for p := range 2 {
			for range 2 { // the answer was lost
				r, err := e.Reserve(ctx, queue.ReserveRequest{
					Partition: p, Client: queue.Client{ID: client}, Number: number, Max: n,
				})
				if err != nil || len(r.Jobs) != n {
					t.Fatal(len(r.Jobs), err)
				}
			}
		}
	}
	outflow := func(want ...float64) {
		t.Helper()
		d, err := e.Drainers(ctx)
		if err != nil || len(d.Seen) != len(want) {
			t.Fatalf("%+v, %v", d, err)
		}
		for i, w := range want {
			if got := d.Seen[i].Outflow; math.Abs(got-w) > .01 {
				t.Errorf("%s is granted %.2f a second, want %.2f", d.Seen[i].ID, got, w)
			}
		}
	}
	reserve("a", 30)
	reserve("b", 10)
	outflow(6, 2)
	at += leaky.Instant(5 * time.Second / time.Microsecond)
	reserve("a", 20)
	reserve("b", 0)
	outflow(10, 2)
	at += leaky.Instant(10 * time.Second / time.Microsecond)
	reserve("a", 0)
	outflow(5)
	at += leaky.Instant(10 * time.Second / time.Microsecond)
	reserve("a", 0)
	outflow(0)
}
