package provider

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var epoch = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// step is a charge after a pause, and what must be left before it.
type step struct {
	after time.Duration
	left  int64
	n     int64
	wait  time.Duration // until 1 is left, after the charge
	reset time.Duration // after the charge
}

func runMeter(t *testing.T, m meter, steps []step) {
	t.Helper()
	now := epoch
	for i, s := range steps {
		now = now.Add(s.after)
		if left := whole(m.left(now)); left != s.left {
			t.Errorf("step %d: %d left, want %d", i, left, s.left)
		}
		m.charge(now, s.n)
		if wait := m.wait(now, 1).Round(time.Microsecond); wait != s.wait {
			t.Errorf("step %d: wait %v, want %v", i, wait, s.wait)
		}
		if reset := m.reset(now).Round(time.Microsecond); reset != s.reset {
			t.Errorf("step %d: reset %v, want %v", i, reset, s.reset)
		}
	}
}

func TestBucketRefillsContinuously(t *testing.T) {
	runMeter(t, newBucket(Limit{60, time.Minute}, 60), []step{
		{0, 60, 1, 0, time.Second},
		{400 * time.Millisecond, 59, 59, 600 * time.Millisecond, 59600 * time.Millisecond},
		{600 * time.Millisecond, 1, 1, time.Second, time.Minute},
		{time.Second, 1, 31, 31 * time.Second, 90 * time.Second}, // into debt
		{time.Hour, 60, 0, 0, 0}, // never beyond its size
	})
}

func TestBucketOfASmallBurst(t *testing.T) {
	runMeter(t, newBucket(Limit{500, time.Minute}, 2), []step{
		{0, 2, 2, 120 * time.Millisecond, 240 * time.Millisecond},
		{120 * time.Millisecond, 1, 1, 120 * time.Millisecond, 240 * time.Millisecond},
	})
}

func TestWindowIsRenewedAsAWhole(t *testing.T) {
	runMeter(t, &window{limit: Limit{10, time.Minute}}, []step{
		{15 * time.Second, 10, 10, 45 * time.Second, 45 * time.Second},
		{44 * time.Second, 0, 0, time.Second, time.Second},
		{time.Second, 10, 3, 0, time.Minute},
	})
}

// Calls at exactly the limit are never refused, although the interval is no whole number of nanoseconds.
func TestExactPaceIsNeverRefused(t *testing.T) {
	limit := Limit{700, time.Minute}
	b := newBucket(limit, 1)
	for i := range 100_000 {
		now := epoch.Add(time.Duration(float64(i) * float64(limit.Per) / float64(limit.N)))
		if b.left(now) < 1-1e-3 {
			t.Fatalf("call %d: %v left", i, b.left(now))
		}
		b.charge(now, 1)
	}
}

// The slack and the most in a window are what a search of all windows finds.
func TestLawAgainstAllWindows(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	const interval = 100 * time.Millisecond
	for range 300 {
		l, m := law{interval: interval}, most{window: time.Second}
		var at []time.Time
		now := epoch
		for range 1 + random.IntN(40) {
			now = now.Add(time.Duration(random.Int64N(int64(2 * interval))))
			if random.IntN(4) > 0 {
				now = now.Truncate(interval) // some come together
			}
			if len(at) > 0 && now.Before(at[len(at)-1]) {
				now = at[len(at)-1]
			}
			at = append(at, now)
			l.arrived(now)
			m.add(now, 1)
		}
		var slack time.Duration
		most := int64(0)
		for i := range at {
			for j := i; j < len(at); j++ {
				slack = max(slack, time.Duration(j-i)*interval-at[j].Sub(at[i]))
				if at[j].Sub(at[i]) < time.Second {
					most = max(most, int64(j-i+1))
				}
			}
		}
		if l.slack != slack || m.most != most {
			t.Fatalf("slack %v and most %d, want %v and %d", l.slack, m.most, slack, most)
		}
	}
}

func TestCostsAreLogNormal(t *testing.T) {
	a, b := newCosts(3, DefaultMedian, DefaultP99), newCosts(3, DefaultMedian, DefaultP99)
	drawn := make([]int64, 100_000)
	for i := range drawn {
		if drawn[i] = a.draw(); drawn[i] != b.draw() {
			t.Fatal("the same seed gave other costs")
		}
	}
	slices.Sort(drawn)
	median, p99 := drawn[len(drawn)/2], drawn[len(drawn)*99/100]
	if median < 390 || median > 410 || p99 < 5600 || p99 > 6400 || drawn[0] < 1 || drawn[len(drawn)-1] > MaxTokens {
		t.Errorf("median %d, p99 %d, from %d to %d", median, p99, drawn[0], drawn[len(drawn)-1])
	}
	if newCosts(4, 400, 6000).draw() == newCosts(3, 400, 6000).draw() {
		t.Error("another seed gave the same cost")
	}
	always := newCosts(3, 50, 50)
	for range 1000 {
		if n := always.draw(); n != 50 {
			t.Fatalf("a cost of %d, but the median and the 99th percentile are 50", n)
		}
	}
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]Limit{
		"500/m": {500, time.Minute}, "1/s": {1, time.Second}, "5000/h": {5000, time.Hour},
		"200_000/m": {200_000, time.Minute},
	} {
		if l, err := ParseLimit(text); err != nil || l != want {
			t.Errorf("%s: %v, %v", text, l, err)
		}
	}
	for _, text := range []string{
		"", "500", "/m", "0/m", "-1/m", "1.5/m", "500/d", "500/", "1e9/m", "1000000001/m",
		"99999999999999999999/m", "500/m/m",
	} {
		if l, err := ParseLimit(text); err == nil {
			t.Errorf("%q is %v", text, l)
		}
	}
}
