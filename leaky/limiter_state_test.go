package leaky

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// longest returns the longest time for which a state blocks a key.
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
	case Allowance: // its debts are not bounded by its burst
		return MaxBurstSpan + time.Microsecond
	}
	panic("an algorithm without a bound")
}

// bounded asks a tally for a cost repeatedly. It reports if the cost is not allowed in time, or if an answer is
// impossible.
func bounded(t *testing.T, l Limiter, tally Tally, now Instant, cost int64) {
	t.Helper()
	end := now.Add(longest(l))
	for at := now; ; at = min(end, at+1+(end-now)/16) {
		peek, expires := tally.Peek(at, Ask{Cost: cost, Lease: "one more"}), tally.Expires(at)
		d := tally.Take(at, Ask{Cost: cost, Lease: "one more"})
		if d != peek || expires > at.Add(longest(l)) {
			t.Fatalf("%+v: %+v, peek %+v, expires behind %d", l, d, peek, expires-at)
		}
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

// relived returns a tally that was asked many times, at about now.
func relived(rnd *rand.Rand, l Limiter, now Instant) Tally {
	tally := l.Fresh()
	for range 40 {
		now += Instant(rnd.Int64N(longest(l).Microseconds()/16 + 1))
		tally.Take(now, Ask{Cost: 1 + rnd.Int64N(l.Limit()), Lease: string(rune('a' + rnd.IntN(26)))})
	}
	return tally
}

// A clone and its original do not affect each other.
func TestCloneIsAnother(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 29))
	const now = Instant(1_790_000_000_000_000)
	for _, l := range append(five(), Gap{Least: time.Second}) {
		for range 50 {
			tally := relived(rnd, l, now)
			before, _ := tally.AppendBinary(nil)
			pair := []Tally{tally, tally.Clone()}
			for i, changed := range pair {
				other := pair[1-i]
				for k := range Instant(40) {
					changed.Take(now+Instant(time.Minute/time.Microsecond)+k*100_000, Ask{
						Lease: string(rune('a' + rnd.IntN(26))),
					})
				}
				changed.Refund(now+Instant(time.Hour/time.Microsecond), Ask{Cost: l.Limit(), Lease: "a"})
				if left, _ := other.AppendBinary(nil); !bytes.Equal(left, before) {
					t.Fatalf("%+v: %q became %q", l, before, left)
				}
				pair[i] = other.Clone() // to be changed by the other
			}
		}
	}
}

// A clock that runs back, by any amount, blocks no key for longer than a full state does.
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

// A clock that runs back a little, into the window before, allows nothing more.
func TestClockRunsBackIntoTheWindowBefore(t *testing.T) {
	const t0 = 1_790_000_000 * sec
	for _, l := range append(five(), Gap{Least: time.Second}) {
		tally := l.Fresh()
		tally.Take(t0, Ask{Cost: l.Limit(), Lease: "a"})
		for _, back := range []Instant{1, 1000, 500_000} {
			if d := tally.Take(t0-back, Ask{Lease: "b"}); d.Allowed || d.Remaining != 0 {
				t.Errorf("%s, %d back: %+v", l.Algorithm(), back, d)
			}
		}
	}
}

// States of the same algorithm with other numbers are read and bounded.
func TestNumbersChange(t *testing.T) {
	makes := []func(*trial){
		randomMeter, randomWindow, randomLog, randomPackedLog, randomCounter, randomConcurrency, randomAllowance,
	}
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

// Takes still count as far as the new numbers allow.
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
		{"a lowered burst of a budget", Allowance{PerSecond(1), 10}, Allowance{PerSecond(1), 4}, 0},
		{"a raised burst of a budget", Allowance{PerSecond(1), 10}, Allowance{PerSecond(1), 100}, 92},
		{"a lowered max", FixedWindow{10, minute}, FixedWindow{4, minute}, 0},
		{"a raised max", FixedWindow{10, minute}, FixedWindow{100, minute}, 91},
		{"another window", FixedWindow{10, minute}, FixedWindow{10, second}, 10},
		{"a log of more", SlidingLog{10, minute, 0}, SlidingLog{100, minute, 0}, 91},
		{"a log of less", SlidingLog{10, minute, 0}, SlidingLog{4, minute, 0}, 0},
		{"a shorter log", SlidingLog{10, minute, 0}, SlidingLog{10, second, 0}, 10},
		{"a packed log", SlidingLog{10, minute, 0}, SlidingLog{10, minute, second}, 1},
		{"two windows", SlidingCounter{10, minute}, SlidingCounter{100, minute}, 91},
		{"two others, with the same end", SlidingCounter{10, 2 * second}, SlidingCounter{100, second}, 100},
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

func TestRestoreRefuses(t *testing.T) {
	state := func(letter byte, numbers ...int64) []byte {
		b := []byte{letter}
		for _, n := range numbers {
			b = binary.AppendVarint(b, n)
		}
		return b
	}
	second := time.Second
	named := append(state(stateConcurrency, 2, 1), 'a')
	named = binary.AppendVarint(binary.AppendVarint(named, 1), 1000)
	named = append(binary.AppendVarint(named, 1), 'a')
	named = binary.AppendVarint(binary.AppendVarint(named, 1), 1000)
	for name, c := range map[string]struct {
		limiter Limiter
		state   []byte
	}{
		"nothing":                 {Meter{PerSecond(1), 5}, nil},
		"another algorithm":       {Meter{PerSecond(1), 5}, state(stateFixedWindow, 5, 5)},
		"an instant beyond 2^53":  {Meter{PerSecond(1), 5}, state(stateMeter, 1<<53+1, 0)},
		"a remainder below 0":     {Meter{PerSecond(1), 5}, state(stateMeter, 1000, -1)},
		"one number too few":      {Meter{PerSecond(1), 5}, state(stateMeter, 1000)},
		"one number too many":     {Meter{PerSecond(1), 5}, state(stateMeter, 1000, 0, 0)},
		"a count below 0":         {FixedWindow{5, second}, state(stateFixedWindow, 1000, -1)},
		"a count above all":       {FixedWindow{5, second}, state(stateFixedWindow, 1000, MaxLimit+1)},
		"a period of 0":           {SlidingCounter{5, second}, state(stateSlidingCounter, 0, 1000, 1, 1)},
		"entries that run back":   {SlidingLog{5, second, 0}, state(stateSlidingLog, 2, 1000, 1, -1, 1)},
		"two of one instant":      {SlidingLog{5, second, 0}, state(stateSlidingLog, 2, 1000, 1, 0, 1)},
		"an entry of no cost":     {SlidingLog{5, second, 0}, state(stateSlidingLog, 1, 1000, 0)},
		"more than there ever is": {SlidingLog{5, second, 0}, state(stateSlidingLog, 2, 1000, MaxLimit, 1, 1)},
		"too many entries":        {SlidingLog{5, second, 0}, state(stateSlidingLog, MaxEntries+1)},
		"a place without a name":  {Concurrency{5, second}, state(stateConcurrency, 1, 0, 1, 1000)},
		"a name that is cut":      {Concurrency{5, second}, state(stateConcurrency, 1, 5)},
		"two of one name":         {Concurrency{5, second}, named},
		"no rate":                 {Allowance{PerSecond(1), 5}, state(stateAllowance, 0, 1, 5, 1000, 0, 0)},
		"more lows than are kept": {Allowance{PerSecond(1), 5}, state(stateAllowance, 1, 1, 5, 1000, 0, maxLows+1)},
		"lows that do not rise":   {Allowance{PerSecond(1), 5}, state(stateAllowance, 1, 1, 5, 1000, 0, 2, 2, 5, 1, 5)},
	} {
		if tally, err := c.limiter.Restore(c.state); !errors.Is(err, ErrState) || tally != nil {
			t.Errorf("%s: %v, %v", name, tally, err)
		}
	}
}

// A planted state is an error, or bounded.
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
	f.Add([]byte("l\x04\xdb00\x940\x04"), int64(-49)) // an entry in the step of one that is ahead
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

// No algorithm reads the states of another, except that a token bucket and a gap share the meter's.
func TestNoStateOfAnother(t *testing.T) {
	limiters := []Limiter{
		Meter{PerSecond(1), 5},
		FixedWindow{5, time.Second},
		SlidingLog{5, time.Second, 0},
		SlidingCounter{5, time.Second},
		Concurrency{5, time.Second},
		Allowance{PerSecond(1), 5},
	}
	for _, of := range limiters {
		tally := of.Fresh()
		tally.Take(1000, Ask{Cost: 1, Lease: "a"})
		state, err := tally.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range limiters {
			if _, err := l.Restore(state); (err == nil) != (l == of) {
				t.Errorf("%s reads the state of %s: %v", l.Algorithm(), of.Algorithm(), err)
			}
		}
	}
}
