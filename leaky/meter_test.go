package leaky

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// TestMeterAsPublished is the table with which redis-cell tests its own arithmetic.
func TestMeterAsPublished(t *testing.T) {
	const t0 = 1_790_000_000 * sec
	m := Meter{Rate: PerSecond(1), Burst: 5}
	var l Level
	for i, c := range []struct {
		at           Instant
		cost         int64
		remaining    int64
		reset, retry int64 // ms; retry -1: not given
		limited      bool
	}{
		{0, 6, 5, 0, -1, true}, // more than there ever is
		{0, 1, 4, 1000, -1, false},
		{0, 1, 3, 2000, -1, false},
		{0, 1, 2, 3000, -1, false},
		{0, 1, 1, 4000, -1, false},
		{0, 1, 0, 5000, -1, false},
		{0, 1, 0, 5000, 1000, true},
		{3000, 1, 2, 3000, -1, false},
		{3100, 1, 1, 3900, -1, false},
		{4000, 1, 1, 4000, -1, false},
		{8000, 1, 4, 1000, -1, false},
		{9500, 1, 4, 1000, -1, false},
		{9500, 2, 2, 3000, -1, false},
		{9500, 5, 2, 3000, 3000, true},
	} {
		d := m.Take(&l, t0+c.at*ms, c.cost)
		want := Decision{Allowed: !c.limited, Limit: 5, Remaining: c.remaining, ResetAfter: micros(c.reset * 1000)}
		if c.retry > 0 {
			want.RetryAfter = micros(c.retry * 1000)
		}
		if d != want {
			t.Errorf("case %d: %+v, want %+v", i, d, want)
		}
	}
}

// cell is the arithmetic of redis-cell as published: in nanoseconds, with 0 for no state. Its quantity is at most what
// passes at once.
func cell(stored *int64, now time.Duration, maxBurst, count, seconds, quantity int64) (d Decision) {
	interval := int64(float64(seconds*1e9) / float64(count))
	tolerance := interval * (maxBurst + 1)
	tat := *stored
	if tat == 0 {
		tat = int64(now)
	}
	next := tat + interval*quantity
	if int64(now) > tat {
		next = int64(now) + interval*quantity
	}
	var ttl int64
	if diff := int64(now) - (next - tolerance); diff < 0 {
		d.RetryAfter = time.Duration(-diff)
		ttl = tat - int64(now)
	} else {
		d.Allowed = true
		*stored = next
		ttl = next - int64(now)
	}
	d.Limit = maxBurst + 1
	if left := tolerance - ttl; left > -interval {
		d.Remaining = int64(float64(left/1000) / float64(interval/1000))
	}
	d.ResetAfter = time.Duration(ttl)
	return d
}

// If T is whole microseconds, redis-cell is equally exact, and the answers are the same.
func TestMeterAnswersAsCell(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 29))
	for range 10_000 {
		count, seconds := []int64{1, 2, 4, 5, 8, 10, 30, 60, 100, 1000}[rnd.IntN(10)], 3*(1+rnd.Int64N(100))
		rate, err := NewRate(count, time.Duration(seconds)*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		m, interval := Meter{Rate: rate, Burst: 1 + rnd.Int64N(20)}, seconds*1e6/count
		var l Level
		stored, now := int64(0), 1_790_000_000*sec
		for i := range 20 {
			now += Instant(rnd.Int64N(2 * interval))
			cost := 1 + rnd.Int64N(m.Burst)
			want := cell(&stored, time.Duration(now)*time.Microsecond, m.Burst-1, count, seconds, cost)
			if d := m.Take(&l, now, cost); d != want {
				t.Fatalf("take %d of %+v, cost %d: %+v, redis-cell %+v", i, m, cost, d, want)
			}
		}
	}
}

// The numbers are exact up to the bounds, where the floating-point quotient is off by one.
func TestMeterIsExactAtItsBounds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 31))
	corrected := false
	for range 20_000 {
		n := 1 + rnd.Int64N(maxNumerator)
		rate, err := reduce(big.NewInt(n), big.NewInt(n+rnd.Int64N(1+n*[]int64{1, 1000, 1_000_000}[rnd.IntN(3)])))
		if err != nil {
			continue
		}
		m := Meter{Rate: rate, Burst: MaxBurst}
		if m.Validate() != nil {
			m.Burst = max(1, int64(MaxBurstSpan/rate.Interval()))
		}
		k := rnd.Int64N(m.Burst + 1)
		us, rest := rate.times(k)
		T := big.NewRat(rate.d, rate.n)
		owes := func(us, rest int64) *big.Rat {
			return new(big.Rat).Add(big.NewRat(us, 1), big.NewRat(rest, rate.n))
		}
		if want := new(big.Rat).Mul(T, big.NewRat(k, 1)); owes(us, rest).Cmp(want) != 0 {
			t.Fatalf("%d x %v = %d + %d/%d", k, T, us, rest, rate.n)
		}
		for _, more := range []int64{-1, 0, 1} {
			rest := rest + more
			if rest < 0 || rest >= rate.n {
				continue
			}
			got := m.units(us, rest)
			if got != k+max(0, more) {
				t.Fatalf("%v: %d + %d/%d are %d units, want %d", rate, us, rest, rate.n, got, k+max(0, more))
			}
			corrected = corrected || got != int64(float64(us)*float64(rate.n)/float64(rate.d)) && more == 0
		}
	}
	if !corrected {
		t.Error("the quotient was always right")
	}
}

// A remainder of another rate, or a planted one, is an error of less than a microsecond.
func TestMeterRemainderOfAnotherRate(t *testing.T) {
	const t0 = 1_790_000_000 * sec
	m := Meter{Rate: PerSecond(1), Burst: 5}
	for _, rem := range []int64{-5, 0, 1, maxNumerator, 1 << 62} {
		if d := m.Peek(Level{TAT: t0 + sec, Rem: rem}, t0, 1); d.Remaining < 3 ||
			d.ResetAfter > 2*time.Second+time.Microsecond {
			t.Errorf("remainder %d: %+v", rem, d)
		}
	}
}
