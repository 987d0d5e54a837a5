package leaky

import (
	"errors"
	"math"
	"testing"
	"time"
)

// five returns limiters that allow five at once, one for each arithmetic and resolution.
func five() []Limiter {
	return []Limiter{
		Meter{Rate: PerSecond(5), Burst: 5},
		TokenBucket{Rate: PerSecond(5), Capacity: 5},
		FixedWindow{Max: 5, Period: time.Second},
		SlidingLog{Max: 5, Period: time.Second},
		SlidingLog{Max: 5, Period: time.Second, Resolution: 100 * time.Millisecond},
		SlidingCounter{Max: 5, Period: time.Second},
		Concurrency{Max: 5, TTL: time.Second},
		Allowance{Rate: PerSecond(5), Burst: 5},
	}
}

// Each limiter allows its limit, says when the next take passes, and allows it then and not a microsecond earlier.
func TestLimiters(t *testing.T) {
	const t0 = 1_790_000_000 * sec
	names := []string{"a", "b", "c", "d", "e"}
	for _, l := range append(five(), Gap{Least: time.Second}) {
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		tally, most := l.Fresh(), l.Limit()
		for i := range most {
			want := Decision{Allowed: true, Limit: most, Remaining: most - 1 - i}
			peek := tally.Peek(t0, Ask{Lease: names[i]})
			got := tally.Take(t0, Ask{Lease: names[i]})
			if got != peek {
				t.Errorf("%s: peek %+v, take %+v", l.Algorithm(), peek, got)
			}
			if got.ResetAfter <= 0 || tally.Expires(t0) != t0.Add(got.ResetAfter) {
				t.Errorf("%s: reset after %v, expires after %v", l.Algorithm(), got.ResetAfter, tally.Expires(t0)-t0)
			}
			if want.ResetAfter = got.ResetAfter; got != want {
				t.Errorf("%s, take %d: %+v, want %+v", l.Algorithm(), i, got, want)
			}
		}
		d := tally.Take(t0, Ask{Lease: "f"})
		if d.Allowed || d.Remaining != 0 || d.RetryAfter <= 0 {
			t.Fatalf("%s: one more: %+v", l.Algorithm(), d)
		}
		at := t0.Add(d.RetryAfter)
		if tally.Peek(at-1, Ask{Lease: "f"}).Allowed || !tally.Peek(at, Ask{Lease: "f"}).Allowed {
			t.Errorf("%s: does not pass after %v", l.Algorithm(), d.RetryAfter)
		}
		if d := tally.Refund(t0, Ask{Lease: "a"}); !d.Allowed || d.Remaining != 0 {
			t.Errorf("%s: one given back: %+v", l.Algorithm(), d)
		}
		if d := tally.Refund(t0, Ask{Cost: most, Lease: "b"}); !d.Allowed {
			t.Errorf("%s: all given back: %+v", l.Algorithm(), d)
		}
	}
}

func TestValidate(t *testing.T) {
	rate := PerSecond(5)
	good := append(
		five(), Gap{Least: time.Millisecond}, Gap{Least: MaxInterval},
		Meter{Rate: PerSecond(MaxPerSecond), Burst: MaxBurst},
		Allowance{Rate: PerSecond(MaxPerSecond), Burst: MaxUnits},
		FixedWindow{Max: MaxLimit, Period: MaxPeriod}, FixedWindow{Max: 1, Period: MinPeriod},
		SlidingLog{Max: MaxEntries, Period: MaxPeriod},
		SlidingLog{Max: MaxLimit, Period: time.Hour, Resolution: 3600 * time.Millisecond}, // a thousand entries
		SlidingLog{Max: MaxLimit, Period: MaxPeriod, Resolution: SlidingLog{Period: MaxPeriod}.coarse()},
	)
	for _, l := range good {
		if err := l.Validate(); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
	century := 100 * 365 * 24 * time.Hour
	bad := []Limiter{
		Meter{Burst: 5},
		Meter{Rate: rate},
		Meter{Rate: rate, Burst: MaxBurst + 1},
		Meter{Rate: rate, Burst: -1},
		Meter{Rate: RateOf(1, MaxInterval.Microseconds()), Burst: 1000},
		TokenBucket{Rate: rate},
		Allowance{Rate: rate},
		Allowance{Rate: rate, Burst: MaxUnits + 1},
		Allowance{Rate: RateOf(1, MaxInterval.Microseconds()), Burst: 1000},
		Gap{},
		Gap{Least: -1},
		Gap{Least: century},
		Gap{Least: time.Millisecond + 1},
		Concurrency{Max: 5},
		Concurrency{TTL: time.Second},
		Concurrency{Max: MaxEntries + 1, TTL: time.Second},
		Concurrency{Max: 5, TTL: century},
	}
	for _, maximum := range []int64{0, -1, MaxLimit + 1, 1e18, math.MinInt64, math.MaxInt64} {
		bad = append(
			bad, FixedWindow{Max: maximum, Period: time.Second}, SlidingCounter{Max: maximum, Period: time.Second},
			SlidingLog{Max: maximum, Period: time.Second, Resolution: time.Second},
		)
	}
	for _, period := range []time.Duration{
		0, -1, 1, MinPeriod - 1, MinPeriod + 1, MaxPeriod + time.Microsecond, century, math.MaxInt64,
	} {
		bad = append(bad, FixedWindow{Max: 5, Period: period}, SlidingCounter{Max: 5, Period: period}, SlidingLog{
			Max: 5, Period: period,
		})
	}
	for _, resolution := range []time.Duration{
		-1, 1, 1001, time.Second + time.Microsecond, math.MaxInt64, math.MinInt64,
	} {
		bad = append(bad, SlidingLog{Max: 5, Period: time.Second, Resolution: resolution})
	}
	bad = append(bad, SlidingLog{Max: MaxEntries + 1, Period: time.Second}, SlidingLog{
		Max: MaxEntries + 1, Period: time.Second, Resolution: 100 * time.Microsecond,
	})
	for _, l := range bad {
		if err := l.Validate(); !errors.Is(err, ErrLimit) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// A take that can never pass is an error from CheckAsk, and a refusal without a time from Take.
func TestCheckAsk(t *testing.T) {
	for _, l := range append(five(), Gap{Least: time.Second}) {
		for _, cost := range []int64{l.Limit() + 1, 1e18, math.MaxInt64, -1, math.MinInt64} {
			want := ErrNever
			if cost < 0 {
				want = ErrAsk
			}
			if err := CheckAsk(l, Ask{Cost: cost, Lease: "a"}); !errors.Is(err, want) {
				t.Errorf("%s, cost %d: %v", l.Algorithm(), cost, err)
			}
			tally := l.Fresh()
			if d := tally.Take(1e15, Ask{Cost: cost, Lease: "a"}); d != (Decision{
				Limit: l.Limit(), Remaining: l.Limit(),
			}) {
				t.Errorf("%s, cost %d: %+v", l.Algorithm(), cost, d)
			}
			if d := tally.Refund(1e15, Ask{Cost: cost, Lease: "a"}); !d.Allowed || d.Remaining != l.Limit()-1 {
				t.Errorf("%s, cost %d given back: %+v", l.Algorithm(), cost, d)
			}
		}
		for _, cost := range []int64{0, 1, l.Limit()} {
			if err := CheckAsk(l, Ask{Cost: cost, Lease: "a"}); err != nil {
				t.Errorf("%s, cost %d: %v", l.Algorithm(), cost, err)
			}
		}
	}
	for _, name := range []string{"", string(make([]byte, MaxLease+1))} {
		l := Concurrency{Max: 5, TTL: time.Second}
		if err := CheckAsk(l, Ask{Lease: name}); !errors.Is(err, ErrAsk) {
			t.Errorf("lease %q: %v", name, err)
		}
		if d := l.Fresh().Take(1e15, Ask{Lease: name}); d.Allowed || d.RetryAfter != 0 {
			t.Errorf("lease %q: %+v", name, d)
		}
	}
}
