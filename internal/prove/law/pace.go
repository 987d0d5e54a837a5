package law

import (
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
)

// Pace describes how well a backlogged queue kept its rate, as one receiver saw it.
type Pace struct {
	Starts int
	// Span is the time from the first start to the last.
	Span time.Duration
	// Rate is the achieved rate, Share its ratio to the configured one.
	Rate, Share float64
	// LostSlots is the number of intervals of the span without a start.
	LostSlots int64
	// GapErrorP50, P99 and Max are quantiles of |gap - T|.
	GapErrorP50, GapErrorP99, GapErrorMax time.Duration
	// ShortGaps is the share of gaps below 0.9 T.
	ShortGaps float64
	// LatenessP50, P99 and Max are quantiles of Lateness.
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

// foresight is the number of later starts with which a start is compared. One start on time among them is enough. With
// a larger number, the drift between two clocks, which grows with time, would count as lateness.
const foresight = 100

// Lateness returns a lower bound of each start's lateness in a sorted trace. It is the time since the latest instant at
// which the start can have been due, if the following starts were due at least T apart and none was early. It needs
// only the receiver's clock, and never exaggerates.
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

// Quantile returns the q-quantile of sorted durations by nearest rank, or 0 without any.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
