package leaky

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// SlidingLog lets through a cost of Max in any half-open window (t-Period, t]. It keeps the instant of everything that passed in the
// last Period, and is exact: what it lets through at t is at most Max in the window that ends with t, and so in
// every one.
//
// With a Resolution, what passes in one step [k x Resolution, (k+1) x Resolution) since the Unix epoch is one entry, kept under the latest of its
// instants. So never one more passes; but what has passed counts for less than a Resolution longer than it would,
// and so a refusal may last as much longer. Without one, what passes in the same microsecond is one entry.
//
// Worst burst: Max at once, and no more within the Period.
//
// Memory: an entry (an instant and a cost) for each that passed in the last Period: at most Max, and at most Period/Resolution + 1.
// A refused cost of k looks at up to k entries to tell when it passes; all else takes constant time, amortized.
type SlidingLog struct {
	Max        int64         // 1 to MaxLimit
	Period     time.Duration // MinPeriod to MaxPeriod
	Resolution time.Duration // 0 for none, at most Period
}

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
		return fmt.Errorf("%w: resolution %v: a limit of %d in %v would be up to %d entries, %d are the most: lower the limit, or let resolution be at least %v",
			ErrLimit, s.Resolution, s.Max, s.Period, n, MaxEntries, s.coarse())
	}
	return nil
}

// coarse is the finest resolution in whole microseconds at which any Max has few enough entries.
func (s SlidingLog) coarse() time.Duration {
	return micros((s.Period.Microseconds() + MaxEntries - 2) / (MaxEntries - 1))
}

// Entries is the most entries that a state has.
func (s SlidingLog) Entries() int64 {
	step := s.step()
	return min(s.Max, (s.Period.Microseconds()+step-1)/step+1)
}

func (s SlidingLog) step() int64 { return max(1, s.Resolution.Microseconds()) }

// Limit implements Limiter: it is Max.
func (s SlidingLog) Limit() int64 { return s.Max }

// Fresh implements Limiter.
func (s SlidingLog) Fresh() Tally {
	return &logged{rule: s, period: Instant(s.Period.Microseconds()), step: Instant(s.step())}
}

// logged is what passed, in a ring that grows, by doubling, up to the entries that there are at once.
type logged struct {
	rule         SlidingLog
	period, step Instant
	ring         []passed // as long as a power of two
	first, n     int
	sum          int64 // of their costs
}

type passed struct {
	at   Instant
	cost int64
}

func (t *logged) entry(i int) *passed { return &t.ring[(t.first+i)&(len(t.ring)-1)] }

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
		last := t.entry(t.n - 1)
		back := min(cost, last.cost)
		cost -= back
		t.sum -= back
		if last.cost -= back; last.cost == 0 {
			t.n--
		}
	}
	return t.Peek(now, Ask{})
}

func (t *logged) Expires(now Instant) Instant { return now.Add(t.reset(now)) }

// over is how many entries are in no window any more, and the cost of the others.
func (t *logged) over(now Instant) (n int, sum int64) {
	sum = t.sum
	for n < t.n && t.entry(n).at <= now-t.period {
		sum -= t.entry(n).cost
		n++
	}
	return n, sum
}

// passes returns when that much cost is in no window any more, from the i-th entry on. What is ahead of now is taken as of now.
func (t *logged) passes(now Instant, i int, cost int64) Instant {
	for ; ; i++ {
		e := t.entry(i)
		if cost -= e.cost; cost <= 0 {
			return min(e.at, now) + t.period
		}
	}
}

func (t *logged) reset(now Instant) time.Duration {
	if t.n == 0 {
		return 0
	}
	return max(0, (min(t.entry(t.n-1).at, now) + t.period).Sub(now))
}

// settle drops what is over, and takes what is ahead of now, as a clock that ran back or a planted state leaves it, as of
// now.
func (t *logged) settle(now Instant) {
	over, sum := t.over(now)
	t.n -= over
	t.sum = sum
	if t.first += over; t.first >= len(t.ring) {
		t.first -= len(t.ring)
	}
	ahead := int64(0)
	for t.n > 0 && t.entry(t.n-1).at > now {
		ahead += t.entry(t.n - 1).cost
		t.n--
	}
	if ahead == 0 {
		return
	}
	if t.n > 0 && t.entry(t.n-1).at == now {
		t.entry(t.n - 1).cost += ahead
		return
	}
	t.sum -= ahead
	t.push(now, ahead) // and not into the entry of the same step, which would stay longer than Peek says
}

// add adds a cost that passed at an instant, not before the last one. After a change of the rule there may be MaxEntries already:
// then the last one takes it in, as if it were of the same step.
func (t *logged) add(at Instant, cost int64) {
	if t.n > 0 {
		last := t.entry(t.n - 1)
		if last.at >= at-floorMod(at, t.step) || t.n >= MaxEntries {
			last.at = at
			last.cost += cost
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
	*t.entry(t.n - 1) = passed{at, cost}
	t.sum += cost
}

func (t *logged) grow() {
	ring := make([]passed, max(1, 2*len(t.ring)))
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
		e := t.entry(i)
		b = binary.AppendVarint(b, int64(e.at-before))
		b = binary.AppendVarint(b, e.cost)
		before = e.at
	}
	return b, nil
}

// Restore implements Limiter. Entries are kept as they are, whatever Resolution they are of.
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
