package law

import (
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
)

// Pace says how well a backlogged queue kept its rate, as one receiver saw it.
type Pace struct {
	Starts int
	// Span is the time from the first start to the last.
	Span time.Duration
	// Rate is the achieved rate and Share that over the configured one.
	Rate, Share float64
	// LostSlots is how many intervals of the span had no start of their own.
	LostSlots int64
	// GapErrorP50, P99 and Max are of |gap - T|.
	GapErrorP50, GapErrorP99, GapErrorMax time.Duration
	// ShortGaps is the share of gaps below 0.9 T.
	ShortGaps float64
	// LatenessP50, P99 and Max are of Lateness.
	LatenessP50, LatenessP99, LatenessMax time.Duration
}

// Measure measures a trace of starts of cost 1 at a limited rate.
func Measure(rate leaky.Rate, instants []time.Duration) Pace {
	at := slices.Clone(instants)
	slices.Sort(at)
	p := Pace{Starts: len(at)}
	n, d := rate.Fraction()
	if len(at) < 2 || n == 0 {
		return p
	}
	interval := float64(d) * 1000 / float64(n)
	p.Span = at[len(at)-1] - at[0]
	gaps := float64(len(at) - 1)
	if p.Span > 0 {
		p.Rate = gaps / p.Span.Seconds()
		p.Share = p.Rate / rate.PerSecond()
	}
	p.LostSlots = max(0, int64(math.Round(float64(p.Span)/interval-gaps)))

	errors := make([]time.Duration, 0, len(at)-1)
	short := 0
	for i := 1; i < len(at); i++ {
		gap := float64(at[i] - at[i-1])
		errors = append(errors, time.Duration(math.Abs(gap-interval)))
		if gap < 0.9*interval {
			short++
		}
	}
	p.ShortGaps = float64(short) / gaps
	p.GapErrorP50, p.GapErrorP99, p.GapErrorMax = spread(errors)
	p.LatenessP50, p.LatenessP99, p.LatenessMax = spread(Lateness(rate, at))
	return p
}

// foresight is how many later starts a start is compared with. It is enough
// that one of them was on time, and few enough that two clocks which run
// differently by a hundred parts in a million do not look like lateness.
const foresight = 100

// Lateness returns, for each start of a sorted trace, by how much it was later
// than the latest instant at which it can have been due, given that those which
// followed were due at least T apart and did not start early. It needs no clock
// but the receiver's, and never exaggerates: the true lateness is that or more.
func Lateness(rate leaky.Rate, at []time.Duration) []time.Duration {
	n, d := rate.Fraction()
	late := make([]time.Duration, len(at))
	if n == 0 {
		return late
	}
	interval := float64(d) * 1000 / float64(n)
	for i := range at {
		due := float64(at[i])
		for j := i + 1; j < len(at) && j <= i+foresight; j++ {
			due = min(due, float64(at[j])-float64(j-i)*interval)
		}
		late[i] = time.Duration(float64(at[i]) - due)
	}
	return late
}

func spread(d []time.Duration) (p50, p99, most time.Duration) {
	slices.Sort(d)
	return Quantile(d, 0.50), Quantile(d, 0.99), Quantile(d, 1)
}

// Quantile returns the q-quantile of sorted durations by the nearest rank, or 0
// when there are none.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
