// Package law judges a trace of starts by the window law: whether any window, of any width and at any place, holds more
// starts than a queue's rate allows. Quotas and rules have laws of their own.
//
// It checks every half-open window of every real width from every instant. It is exact: rates are fractions, instants
// are integer nanoseconds, and nothing is rounded. It takes one pass over the trace.
//
// It does not measure: callers record the instants, on a clock of their choice. It does no I/O, and applies no
// tolerance except the one that the caller states in advance.
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
	// Slack is the queue's maximum lateness of a start. Delta is the variation of the time from a start to its
	// observation. Fix both before the run.
	Slack, Delta time.Duration
}

// Start is the start of one job.
type Start struct {
	At   time.Duration // on any one clock; only differences matter
	Cost int64         // 0 means 1
}

// Window is one window of a trace, with the starts in it and the allowed number.
type Window struct {
	From    time.Duration
	Width   time.Duration // just wide enough to hold the last of them
	Starts  int64         // in units of cost
	Allowed int64
}

// Verdict is the result of Judge.
type Verdict struct {
	Held bool
	// Worst is the window that breaks the law most, or comes nearest to breaking it. It is zero without starts.
	Worst Window
	// Needed is the smallest Slack + Delta under which the law holds.
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

// Allowed returns the maximum cost in a window [a, a+w), or -1 for no limit.
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

// allowedThrough is Allowed for windows [a, a+w) with w barely above dt, which hold both of two starts that are dt
// apart.
func (l Law) allowedThrough(dt time.Duration) int64 {
	n, d := l.Rate.Fraction()
	q, _ := mulDiv(uint64(dt+l.Slack+l.Delta), uint64(n), uint64(d)*1000)
	return q + 1 + l.extra()
}

// extra is the part of the law that burst and cost add.
func (l Law) extra() int64 { return max(l.Burst, 1) - 1 + max(l.MaxCost, 1) - 1 }

// Judge checks every window of the trace. The starts may be in any order.
//
// Let C(k) be the cost of the first k starts. Only the narrowest windows that
// hold starts i to j matter, and for them the law says
//
//	C(j) - C(i-1)  <=  floor((t(j) - t(i) + s)/T) + 1 + extra
//
// Since the left side is an integer, this is
//
//	[t(i) - C(i-1) T]  -  [t(j) - C(j) T]  <=  s + (1 + extra) T
//
// so it is enough to keep the greatest left bracket seen so far.
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
		first     int  // its start
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

// Most returns the greatest cost that starts in any window [a, a+w), and the start of the first such window.
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

// mark is the instant whole - part/n nanoseconds, with part from 0 to n-1.
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

// less compares the wholes first, since a part is less than a nanosecond.
func (t interval) less(a, b mark) bool {
	if a.whole != b.whole {
		return a.whole < b.whole
	}
	return a.part > b.part
}

// ceil rounds up to a nanosecond: part is subtracted, so whole is the ceiling.
func (t interval) ceil(m mark) time.Duration { return time.Duration(m.whole) }

// far stands for a product too large to matter: no trace is 70 years long.
const far = 1 << 61

// mulDiv returns a x b / c and the remainder, exactly, or far. Package leaky has its own mulDiv: a judge of starts
// shares no arithmetic with the code that grants them.
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
