package leaky

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"time"
)

// SlidingLog allows a cost of Max in any half-open window (t-Period, t]. It stores the instant of everything that
// passed in the last Period. It is exact: at most Max pass in the window that ends at t, and so in every window.
//
// With a Resolution, all takes of one step [k x Resolution, (k+1) x Resolution) since the Unix epoch form one entry
// with the latest of their instants. It never allows more, but takes count for up to a Resolution longer, so refusals
// may last that much longer. Without a Resolution, takes of the same microsecond form one entry.
//
// Worst burst: Max at once, and no more within the Period.
//
// Memory: one entry (an instant and a cost) per take of the last Period: at most Max, and at most Period/Resolution +
// 1. The time at which a refused cost passes is found by binary search; everything else takes constant amortized time.
type SlidingLog struct {
	Max        int64         // 1 to MaxLimit
	Period     time.Duration // MinPeriod to MaxPeriod
	Resolution time.Duration // 0 for none, at most Period
}

// AlgorithmSlidingLog is the name of SlidingLog.
const AlgorithmSlidingLog Algorithm = "sliding_log"

// stateSlidingLog is the first byte of its states.
const stateSlidingLog = 'l'

// Algorithm implements Limiter.
func (s SlidingLog) Algorithm() Algorithm { return AlgorithmSlidingLog }

// Validate implements Limiter.
func (s SlidingLog) Validate() error {
	if err := (FixedWindow{Max: s.Max, Period: s.Period}).Validate(); err != nil {
		return err
	}
	if s.Resolution != 0 {
		if err := checkPeriod("resolution", s.Resolution, time.Microsecond, s.Period); err != nil {
			return err
		}
	}
	if n := s.Entries(); n > MaxEntries {
		return fmt.Errorf("%w: resolution %v: a limit of %d in %v would need up to %d entries, and the maximum is %d: "+
			"lower the limit, or use a resolution of at least %v",
			ErrLimit, s.Resolution, s.Max, s.Period, n, MaxEntries, s.coarse())
	}
	return nil
}

// coarse returns the finest resolution, in whole microseconds, at which any Max has few enough entries.
func (s SlidingLog) coarse() time.Duration {
	return micros((s.Period.Microseconds() + MaxEntries - 2) / (MaxEntries - 1))
}

// Entries returns the maximum number of entries of a state.
func (s SlidingLog) Entries() int64 {
	step := s.step()
	return min(s.Max, (s.Period.Microseconds()+step-1)/step+1)
}

func (s SlidingLog) step() int64 { return max(1, s.Resolution.Microseconds()) }

// Limit implements Limiter. It returns Max.
func (s SlidingLog) Limit() int64 { return s.Max }

// Most implements Limiter. It returns Max for each started Period.
func (s SlidingLog) Most(w time.Duration) int64 { return mulDiv(s.Max, int64(w/s.Period+1), 1) }

// Fresh implements Limiter.
func (s SlidingLog) Fresh() Tally {
	return &logged{rule: s, period: Instant(s.Period.Microseconds()), step: Instant(s.step())}
}

// logged has the entries in a ring that doubles as needed.
type logged struct {
	rule         SlidingLog
	period, step Instant
	ring         []logEntry // the length is a power of two
	first, n     int
	sum          int64  // total cost of the entries
	base         uint64 // total cost of dropped entries
}

// logEntry is what passed in a step. upTo is the total cost up to and including it. It may wrap around 2^64, like
// base, but differences are right.
type logEntry struct {
	at   Instant
	upTo uint64
}

func (t *logged) entry(i int) *logEntry { return &t.ring[(t.first+i)&(len(t.ring)-1)] }

// upTo returns the total cost of the first n entries.
func (t *logged) upTo(n int) int64 {
	if n == 0 {
		return 0
	}
	return int64(t.entry(n-1).upTo - t.base)
}

func (t *logged) Take(now Instant, a Ask) Decision {
	t.settle(now)
	d := t.Peek(now, a)
	if d.Allowed {
		t.add(now, a.cost())
	}
	return d
}

func (t *logged) Peek(now Instant, a Ask) Decision {
	cost, most := a.cost(), t.rule.Max
	over, sum := t.over(now)
	d := Decision{Limit: most, ResetAfter: t.reset(now)}
	if cost >= 1 && cost <= most {
		if sum+cost <= most {
			d.Allowed, d.ResetAfter = true, t.rule.Period
			sum += cost
		} else {
			d.RetryAfter = t.passes(now, over, sum+cost-most).Sub(now)
		}
	}
	d.Remaining = max(0, most-sum)
	return d
}

func (t *logged) Refund(now Instant, a Ask) Decision {
	t.settle(now)
	cost := max(a.cost(), 0)
	for cost > 0 && t.n > 0 {
		before := t.upTo(t.n - 1)
		back := min(cost, t.sum-before)
		cost -= back
		t.sum -= back
		t.entry(t.n - 1).upTo -= uint64(back)
		if t.sum == before {
			t.n--
		}
	}
	return t.Peek(now, Ask{})
}

func (t *logged) Expires(now Instant) Instant { return now.Add(t.reset(now)) }

// over returns how many entries are no longer in any window, and the cost of the others.
func (t *logged) over(now Instant) (n int, sum int64) {
	behind := now - t.period
	if t.n == 0 || t.entry(0).at > behind {
		return 0, t.sum
	}
	if n = 1; t.n > 1 && t.entry(1).at <= behind { // rarely more than one
		n += sort.Search(t.n-1, func(i int) bool { return t.entry(1+i).at > behind })
	}
	return n, t.sum - t.upTo(n)
}

// passes returns when this much cost, counted from entry i on, will no longer be in any window. Entries ahead of now
// count as taken now.
func (t *logged) passes(now Instant, i int, cost int64) Instant {
	cost += t.upTo(i)
	i += sort.Search(t.n-i, func(k int) bool { return t.upTo(i+k+1) >= cost })
	return min(t.entry(i).at, now) + t.period
}

func (t *logged) reset(now Instant) time.Duration {
	if t.n == 0 {
		return 0
	}
	return max(0, (min(t.entry(t.n-1).at, now) + t.period).Sub(now))
}

// settle drops entries that are over. It moves entries ahead of now, as left by a clock that ran back or a planted
// state, to now.
func (t *logged) settle(now Instant) {
	over, sum := t.over(now)
	if over > 0 {
		t.base = t.entry(over - 1).upTo
		t.n -= over
		t.sum = sum
		if t.first += over; t.first >= len(t.ring) {
			t.first -= len(t.ring)
		}
	}
	for t.n > 0 && t.entry(t.n-1).at > now {
		t.n--
		t.sum = t.upTo(t.n)
	}
	ahead := sum - t.sum
	if ahead == 0 {
		return
	}
	if t.n > 0 && t.entry(t.n-1).at == now {
		t.entry(t.n - 1).upTo += uint64(ahead)
		t.sum = sum
		return
	}
	t.push(now, ahead) // not into the entry of the same step, which would last longer than Peek says
}

// add records a cost that passed at an instant, not before the last entry. After a change of the rule there may be
// MaxEntries already: then the last entry takes it in, as if it were of the same step.
func (t *logged) add(at Instant, cost int64) {
	if t.n > 0 {
		last := t.entry(t.n - 1)
		if last.at >= at-floorMod(at, t.step) || t.n >= MaxEntries {
			last.at = at
			last.upTo += uint64(cost)
			t.sum += cost
			return
		}
	}
	t.push(at, cost)
}

func (t *logged) push(at Instant, cost int64) {
	if t.n == len(t.ring) {
		t.grow()
	}
	t.n++
	t.sum += cost
	*t.entry(t.n - 1) = logEntry{at, t.base + uint64(t.sum)}
}

func (t *logged) grow() {
	ring := make([]logEntry, max(1, 2*len(t.ring)))
	for i := range t.n {
		ring[i] = *t.entry(i)
	}
	t.ring, t.first = ring, 0
}

func (t *logged) Clone() Tally {
	c := *t
	c.ring = slices.Clone(t.ring)
	return &c
}

func (t *logged) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendVarint(append(b, stateSlidingLog), int64(t.n))
	before := Instant(0)
	for i := range t.n {
		at := t.entry(i).at
		b = binary.AppendVarint(b, int64(at-before))
		b = binary.AppendVarint(b, t.upTo(i+1)-t.upTo(i))
		before = at
	}
	return b, nil
}

// Restore implements Limiter. Entries are kept as they are, even if they have another Resolution.
func (s SlidingLog) Restore(b []byte) (Tally, error) {
	t := s.Fresh().(*logged)
	r := readState(b, stateSlidingLog)
	at, n := Instant(0), r.number(0, MaxEntries)
	for i := range n {
		if i == 0 {
			at = r.instant()
		} else {
			at += Instant(r.number(1, 1<<53-int64(at)))
		}
		cost := r.number(1, MaxLimit-t.sum)
		if r.bad {
			break
		}
		t.push(at, cost)
	}
	return r.end(s, t)
}
