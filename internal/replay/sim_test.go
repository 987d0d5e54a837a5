package replay

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// TestQueue compares the simulation with a table: a queue of 2 at one a second gets three jobs at once and one later.
func TestQueue(t *testing.T) {
	q, err := ReadQueue("rate=1/s capacity=2")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newQueueSim(&q)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		at, cost int64
		accepted bool
		depth    int64
	}{
		{0, 1, true, 0}, // it leaves at once
		{0, 1, true, 1}, // at 1 s
		{0, 1, true, 2}, // at 2 s
		{0, 1, false, 2},
		{999_999, 1, false, 2},
		{1_000_000, 3, true, 2}, // at 3 s, and uses up 3 s
		{3_000_000, 1, true, 1}, // at 6 s
		{9_000_000, 1, true, 0},
		{9_000_000, 5000, false, 0},
	} {
		if got := s.arrive(leaky.Instant(c.at), c.cost); got != c.accepted || s.depth(leaky.Instant(c.at)) != c.depth {
			t.Errorf("%d: %v, %d wait", i, got, s.depth(leaky.Instant(c.at)))
		}
	}
	o, err := s.outcome(unchecked)
	if err != nil {
		t.Fatal(err)
	}
	if o.Accepted != 6 || o.Refused != 3 || o.Never != 1 || o.Deepest != 2 || o.WaitMax.D() != 3*time.Second ||
		o.WaitP50.D() != 1_007_615*time.Microsecond {
		t.Errorf("%+v", o)
	}
}

// TestWaits checks that a quantile is never below the exact one, and at most 1.6 % above.
func TestWaits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var w waits
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(r.Int64N(1<<r.IntN(40))) * time.Microsecond
		w.add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
		got, want := w.quantile(q).D(), all[int(q*10_000)-1]
		if got < want || float64(got) > 1.016*float64(want)+1 {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
}

// TestQueueLeavesAtItsPace compares the simulation with the arithmetic of a pace, which gives each departure on
// arrival.
func TestQueueLeavesAtItsPace(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for _, text := range []string{
		"rate=10/s capacity=5", "rate=10/s capacity=50 burst=7", "rate=1000/s capacity=100", "rate=7/m capacity=20 burst=2",
		"rate=14/s capacity=1000", "rate=3/h capacity=3", "rate=1/250ms capacity=100000 burst=100",
	} {
		q, err := ReadQueue(text)
		if err != nil {
			t.Fatal(err)
		}
		s, err := newQueueSim(&q)
		if err != nil {
			t.Fatal(err)
		}
		pace := leaky.Pacer{Rate: q.Rate, Burst: q.Burst, Horizon: math.MaxInt64}
		var b leaky.Bucket
		var leave []leaky.Instant
		var want waits
		at := leaky.Instant(0)
		for range 5000 {
			at += leaky.Instant(r.ExpFloat64() * float64(q.Rate.Interval().Microseconds()) * 1.5)
			cost := int64(1)
			if r.IntN(10) == 0 {
				cost = 1 + r.Int64N(5)
			}
			leave = slices.DeleteFunc(leave, func(d leaky.Instant) bool { return d <= at })
			accepted := int64(len(leave)) < q.Capacity
			if accepted {
				d, _ := pace.Take(&b, at, cost)
				want.add(d.Sub(at))
				if d > at {
					leave = append(leave, d)
				}
			}
			if got := s.arrive(at, cost); got != accepted || s.depth(at) != int64(len(leave)) {
				t.Fatalf("%s: at %d %v, %d wait; want %v, %d", text, at, got, s.depth(at), accepted, len(leave))
			}
		}
		if _, err := s.outcome(unchecked); err != nil || s.waits != want || s.last != b.Last {
			t.Errorf("%s: the waits differ from the pace, or the last left at %d instead of %d", text, s.last, b.Last)
		}
	}
}

func BenchmarkQueue(b *testing.B) {
	q, err := ReadQueue("rate=1000/s capacity=10000")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := newQueueSim(&q)
		if err != nil {
			b.Fatal(err)
		}
		for i := range leaky.Instant(100_000) {
			s.arrive(i*900, 1)
		}
		_, _ = s.outcome(unchecked)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/request")
}

func unchecked() error { return nil }

// The end of a replay is bounded too: while waiting jobs leave, the replay still checks for cancellation.
func TestTheEndOfAReplayIsBounded(t *testing.T) {
	s, err := newQueueSim(&Queue{Label: "q", Spec: queue.Spec{Rate: leaky.PerSecond(1), Burst: 1, Capacity: 20_000}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		s.arrive(leaky.Instant(i), 1)
	}
	gone := errors.New("nobody waits any more")
	checks := 0
	if _, err := s.outcome(func() error {
		if checks++; checks == 3 {
			return gone
		}
		return nil
	}); !errors.Is(err, gone) || s.left == 0 || s.left == s.accepted {
		t.Errorf("%v after %d checks: %d of %d have left", err, checks, s.left, s.accepted)
	}
}
