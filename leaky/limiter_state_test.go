package leaky

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// longest is the longest that a state stops a key.
func longest(l Limiter) time.Duration {
	switch l := l.(type) {
	case Meter:
		return l.Rate.Interval()*time.Duration(l.Burst) + time.Microsecond
	case TokenBucket:
		return longest(l.Meter())
	case Gap:
		return l.Least
	case FixedWindow:
		return l.Period
	case SlidingLog:
		return l.Period
	case SlidingCounter:
		return 2 * l.Period
	case Concurrency:
		return l.TTL
	}
	panic("an algorithm without a bound")
}

// bounded asks a tally for a cost, again and again, and reports how it is not let through in time, or says what cannot be.
func bounded(t *testing.T, l Limiter, tally Tally, now Instant, cost int64) {
	t.Helper()
	end := now.Add(longest(l))
	for at := now; ; at = min(end, at+1+(end-now)/16) {
		d := tally.Take(at, Ask{Cost: cost, Lease: "one more"})
		if d.Remaining < 0 || d.Remaining > l.Limit() || d.ResetAfter < 0 || d.ResetAfter > longest(l) {
			t.Fatalf("%+v: %+v", l, d)
		}
		if e := tally.Expires(at); e != at.Add(d.ResetAfter) {
			t.Fatalf("%+v: %+v, but expires at %d", l, d, e-at)
		}
		if d.Allowed {
			return
		}
		if d.RetryAfter <= 0 || at.Add(d.RetryAfter) > end {
			t.Fatalf("%+v: %d behind, %+v", l, at-now, d)
		}
		if p := tally.Peek(at.Add(d.RetryAfter), Ask{Cost: cost, Lease: "one more"}); !p.Allowed {
			t.Fatalf("%+v: promised %+v, then %+v", l, d, p)
		}
	}
}

// relived is a tally that was asked many times, at about now.
func relived(rnd *rand.Rand, l Limiter, now Instant) Tally {
	tally := l.Fresh()
	for range 40 {
		now += Instant(rnd.Int64N(longest(l).Microseconds()/16 + 1))
		tally.Take(now, Ask{Cost: 1 + rnd.Int64N(l.Limit()), Lease: string(rune('a' + rnd.IntN(26)))})
	}
	return tally
}

// A clock that ran back, by however much, stops no key for longer than a full state does.
func TestClockRunsBack(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 17))
	for range 200 {
		for _, l := range append(five(), Gap{Least: time.Second}) {
			now := Instant(1_790_000_000_000_000 + rnd.Int64N(1e9))
			for _, back := range []int64{1, 1e6, 1e9, 1e15} {
				for _, cost := range []int64{1, l.Limit()} {
					bounded(t, l, relived(rnd, l, now+Instant(rnd.Int64N(back))), now, cost)
				}
			}
		}
	}
}

// Of other numbers of the same algorithm a state is read, and bounded.
func TestNumbersChange(t *testing.T) {
	makes := []func(*trial){randomMeter, randomWindow, randomLog, randomPackedLog, randomCounter, randomConcurrency}
	for seed := range uint64(500) {
		for i, was := range makes {
			rnd := rand.New(rand.NewPCG(seed, 19))
			a, b := &trial{rnd: rnd}, &trial{rnd: rnd}
			was(a)
			makes[i](b)
			if a.limiter.Validate() != nil || b.limiter.Validate() != nil {
				continue
			}
			now := Instant(1_790_000_000_000_000 + rnd.Int64N(1e9))
			for _, cost := range []int64{1, b.limiter.Limit()} {
				state, _ := relived(rnd, a.limiter, now-3*a.span).AppendBinary(nil)
				tally, err := b.limiter.Restore(state)
				if err != nil {
					t.Fatalf("%+v reads of %+v: %v", b.limiter, a.limiter, err)
				}
				bounded(t, b.limiter, tally, now, cost)
			}
		}
	}
}

// What was taken stays taken, as far as the new numbers allow.
func TestNumbersChangeKeepsWhatWasTaken(t *testing.T) {
	const t0 = 1_790_000_000_000_000 / 60_000_000 * 60_000_000
	second, minute := time.Second, time.Minute
	for _, c := range []struct {
		name      string
		was, is   Limiter
		remaining int64 // a second later
	}{
		{"a lowered burst", Meter{PerSecond(1), 10}, Meter{PerSecond(1), 4}, 0},
		{"a raised burst", Meter{PerSecond(1), 10}, Meter{PerSecond(1), 100}, 92},
		{"a bucket of tokens", Meter{PerSecond(1), 10}, TokenBucket{PerSecond(1), 100}, 92},
		{"a lowered max", FixedWindow{10, minute}, FixedWindow{4, minute}, 0},
		{"a raised max", FixedWindow{10, minute}, FixedWindow{100, minute}, 91},
		{"another window", FixedWindow{10, minute}, FixedWindow{10, second}, 10},
		{"a log of more", SlidingLog{10, minute, 0}, SlidingLog{100, minute, 0}, 91},
		{"a log of less", SlidingLog{10, minute, 0}, SlidingLog{4, minute, 0}, 0},
		{"a shorter log", SlidingLog{10, minute, 0}, SlidingLog{10, second, 0}, 10},
		{"a packed log", SlidingLog{10, minute, 0}, SlidingLog{10, minute, second}, 1},
		{"two windows", SlidingCounter{10, minute}, SlidingCounter{100, minute}, 91},
		{"two others", SlidingCounter{10, minute}, SlidingCounter{100, second}, 100},
		{"more places", Concurrency{10, minute}, Concurrency{100, minute}, 91},
		{"fewer places", Concurrency{10, minute}, Concurrency{4, minute}, 0},
		{"shorter leases", Concurrency{10, minute}, Concurrency{10, second}, 1},
	} {
		tally := c.was.Fresh()
		tally.Take(t0, Ask{Cost: 9, Lease: "a"})
		b, _ := tally.AppendBinary(nil)
		tally, err := c.is.Restore(b)
		if err != nil {
			t.Fatal(err)
		}
		remaining := tally.Peek(t0+sec, Ask{}).Remaining
		if tally.Peek(t0+sec, Ask{}).Allowed {
			remaining++
		}
		if remaining != c.remaining {
			t.Errorf("%s: %d remaining, want %d", c.name, remaining, c.remaining)
		}
	}
}

// A state that was planted is an error, or bounded.
func FuzzRestore(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 23))
	limiters := append(five(), Gap{Least: time.Second})
	for _, l := range limiters {
		b, _ := relived(rnd, l, 1_790_000_000_000_000).AppendBinary(nil)
		f.Add(b, int64(1_790_000_000_000_000))
		f.Add(b[:len(b)-1], int64(0))
		f.Add(append(b, 0), int64(-1))
	}
	f.Add([]byte{}, int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		now := Instant(at % (1 << 53))
		for _, l := range limiters {
			for _, cost := range []int64{1, l.Limit()} {
				tally, err := l.Restore(b)
				if err != nil {
					if !errors.Is(err, ErrState) || tally != nil {
						t.Fatalf("%v, %v", tally, err)
					}
					break
				}
				written, _ := tally.AppendBinary(nil)
				again, err := l.Restore(written)
				if err != nil {
					t.Fatalf("%+v does not read what it wrote: %v", l, err)
				}
				if d, was := again.Peek(now, Ask{}), tally.Peek(now, Ask{}); d != was {
					t.Fatalf("%+v: %+v, read again %+v", l, was, d)
				}
				bounded(t, l, tally, now, cost)
			}
		}
	})
}
