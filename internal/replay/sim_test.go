package replay

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
)

// TestQueue holds the simulation against a table: a queue of 2, one a second, of which three come at once and one
// later.
func TestQueue(t *testing.T) {
	q, err := ReadQueue("rate=1/s capacity=2")
	if err != nil {
		t.Fatal(err)
	}
	s := newQueueSim(&q)
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
	o := s.outcome()
	if o.Accepted != 6 || o.Refused != 3 || o.Never != 1 || o.Deepest != 2 || o.WaitMax.D() != 3*time.Second ||
		o.WaitP50.D() != 1_007_615*time.Microsecond {
		t.Errorf("%+v", o)
	}
}

// TestWaits: a quantile is never below the true one, and at most 1.6 % above.
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
