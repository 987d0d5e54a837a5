// Package law judges a trace of starts by the window law: whether any window,
// of any width and at any place, holds more starts than a queue's rate allows.
// A quota has a law of its own, and so has the admission by a rule.
//
// It promises to look at every window: half-open, of every real width, from
// every instant. It is exact (the rate is a fraction, instants are integer
// nanoseconds, nothing is rounded) and takes one pass over the trace.
//
// It refuses to measure: who records the instants, and on which clock, is the
// caller's business. There is no I/O here, and no tolerance but the one that the
// caller states before.
package law

import (
	"math/bits"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
)

// Law is the window law of one queue: in any half-open window [a, a+W) at most
//
//	ceil((W + Slack + Delta) / T) + Burst - 1 + (MaxCost - 1)
//
// units of cost start. An unlimited rate allows everything.
type Law struct {
	Rate    leaky.Rate
	Burst   int64 // 0 means 1
	MaxCost int64 // 0 means 1
	// Slack is the queue's: how late a start may be. Delta is for the spread of
	// the way between a start and the place where it is seen. Fix both before
	// the run that they judge.
	Slack, Delta time.Duration
}

// Start is one job starting.
type Start struct {
	At   time.Duration // on any one clock; only differences mean anything
	Cost int64         // 0 means 1
}

// Window is one window of a trace: what started in it, and what may have.
type Window struct {
	From    time.Duration
	Width   time.Duration // just wide enough to hold the last of them
	Starts  int64         // in units of cost
	Allowed int64
}

// Verdict is what Judge found.
type Verdict struct {
	Held bool
	// Worst is the window that comes nearest to breaking the law, or breaks it
	// most. Zero without starts.
	Worst Window
	// Needed is the least Slack + Delta under which the law would have held.
	Needed time.Duration
}

// At returns a trace of starts of cost 1.
func At(instants []time.Duration) []Start {
	starts := make([]Start, len(instants))
	for i, t := range instants {
		starts[i].At = t
	}
	return starts
}

// Allowed returns how much may start in a window [a, a+w), or -1 for no limit.
func (l Law) Allowed(w time.Duration) int64 {
	n, d := l.Rate.Fraction()
	if n == 0 {
		return -1
	}
	if w <= 0 {
		return 0
	}
	q, r := mulDiv(uint64(w+l.Slack+l.Delta), uint64(n), uint64(d)*1000)
	if r > 0 {
		q++
	}
	return q + l.extra()
}

// allowedThrough is Allowed for windows [a, a+w) with w barely above dt, which
// are those that hold both of two starts that are dt apart.
func (l Law) allowedThrough(dt time.Duration) int64 {
	n, d := l.Rate.Fraction()
	q, _ := mulDiv(uint64(dt+l.Slack+l.Delta), uint64(n), uint64(d)*1000)
	return q + 1 + l.extra()
}

// extra is what burst and cost add to the law.
func (l Law) extra() int64 { return max(l.Burst, 1) - 1 + max(l.MaxCost, 1) - 1 }

// Judge looks at every window of the trace. The starts may be in any order.
//
// Let C(k) be the cost of the first k starts. The windows that matter are the
// narrowest that hold starts i to j, and the law for those says
//
//	C(j) - C(i-1) <= floor((t(j) - t(i) + s)/T) + 1 + extra
//
// which, the left side being an integer, is
//
//	[t(i) - C(i-1) T]  -  [t(j) - C(j) T]  <=  s + (1 + extra) T
//
// so it is enough to carry along the greatest left bracket seen so far.
func (l Law) Judge(starts []Start) Verdict {
	n, d := l.Rate.Fraction()
	if n == 0 || len(starts) == 0 {
		return Verdict{Held: true}
	}
	s := slices.Clone(starts)
	slices.SortStableFunc(s, func(a, b Start) int { return int(min(max(a.At-b.At, -1), 1)) })

	line := interval{n: n, d: d}
	limit := line.times(1 + l.extra())
	var (
		total     int64
		high      mark // the greatest opening bracket
		first     int  // where it stands
		before    int64
		worst     mark
		worstPair [2]int
		worstCost int64
	)
	for j := range s {
		if opening := line.minus(s[j].At, total); j == 0 || line.less(high, opening) {
			high, first, before = opening, j, total
		}
		total += max(s[j].Cost, 1)
		need := line.sub(line.sub(high, line.minus(s[j].At, total)), limit)
		if j == 0 || line.less(worst, need) {
			worst, worstPair, worstCost = need, [2]int{first, j}, total-before
		}
	}
	dt := s[worstPair[1]].At - s[worstPair[0]].At
	v := Verdict{
		Held:   !line.less(mark{whole: int64(l.Slack + l.Delta)}, worst),
		Worst:  Window{From: s[worstPair[0]].At, Width: dt + 1, Starts: worstCost, Allowed: l.allowedThrough(dt)},
		Needed: max(0, line.ceil(worst)),
	}
	return v
}

// Most returns the greatest cost that starts in any window [a, a+w), and where
// the first such window begins.
func Most(starts []Start, w time.Duration) (most int64, from time.Duration) {
	s := slices.Clone(starts)
	slices.SortStableFunc(s, func(a, b Start) int { return int(min(max(a.At-b.At, -1), 1)) })
	var sum int64
	i := 0
	for j := range s {
		sum += max(s[j].Cost, 1)
		for s[j].At-s[i].At >= w {
			sum -= max(s[i].Cost, 1)
			i++
		}
		if sum > most {
			most, from = sum, s[i].At
		}
	}
	return most, from
}

// interval is T as an exact fraction: d microseconds for n departures.
type interval struct{ n, d int64 }

// mark is the instant whole - part/n nanoseconds, part being from 0 to n-1.
type mark struct{ whole, part int64 }

// times returns k x T.
func (t interval) times(k int64) mark {
	q, r := mulDiv(uint64(k), uint64(t.d)*1000, uint64(t.n))
	if r == 0 {
		return mark{whole: q}
	}
	return mark{whole: q + 1, part: t.n - int64(r)}
}

// minus returns at - k x T.
func (t interval) minus(at time.Duration, k int64) mark {
	q, r := mulDiv(uint64(k), uint64(t.d)*1000, uint64(t.n))
	return mark{whole: int64(at) - q, part: int64(r)}
}

func (t interval) sub(a, b mark) mark {
	m := mark{whole: a.whole - b.whole, part: a.part - b.part}
	if m.part < 0 {
		m.whole++
		m.part += t.n
	}
	return m
}

// less compares by the wholes first: a part is less than a nanosecond.
func (t interval) less(a, b mark) bool {
	if a.whole != b.whole {
		return a.whole < b.whole
	}
	return a.part > b.part
}

// ceil rounds up to a nanosecond: part is subtracted, so whole is the ceiling.
func (t interval) ceil(m mark) time.Duration { return time.Duration(m.whole) }

// far stands for a product too great to matter: no trace is 70 years long.
const far = 1 << 61

// mulDiv returns a x b / c and the remainder, exactly, or far. Package leaky has one of its own: a judge of starts
// shares no arithmetic with what lets them go.
func mulDiv(a, b, c uint64) (q int64, r uint64) {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return far, 0
	}
	quo, rem := bits.Div64(hi, lo, c)
	if quo > far {
		return far, 0
	}
	return int64(quo), rem
}
