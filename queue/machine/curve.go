package machine

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/queue"
)

// bend is a queue.Bend of a fluid.
type bend struct {
	t, left, rate float64
	by            verdict
	drained       int
}

// bend adds the present to the curve, unless the curve goes on as before.
func (f *fluid) bend(rate float64, by verdict) {
	b := bend{f.t, f.jobsLeft(), rate, by, -1}
	n := len(f.bends)
	if n == 0 {
		f.bends = append(f.bends, b)
		return
	}
	last := f.bends[n-1]
	if last.by == b.by && math.Abs(last.rate-rate) <= tiny*(last.rate+rate) && b.left > tiny {
		return
	}
	if f.drained >= 0 && f.dry[f.drained] >= f.t-tiny {
		b.drained = f.drained
	}
	if f.bends = append(f.bends, b); len(f.bends) >= 4*queue.MaxBends {
		f.bends = simplified(f.bends, 2*queue.MaxBends)
	}
}

// simplified returns a curve with at most n bends, the ends among them. It adds bend after bend where the curve made of
// those before is furthest off (D. Douglas, T. Peucker, 1973).
func simplified(curve []bend, n int) []bend {
	if len(curve) <= n {
		return curve
	}
	type span struct {
		from, to, worst int
		off             float64
	}
	measure := func(from, to int) span {
		s := span{from: from, to: to, off: -1}
		a, b := curve[from], curve[to]
		for i := from + 1; i < to; i++ {
			line := a.left
			if b.t > a.t {
				line += (b.left - a.left) * (curve[i].t - a.t) / (b.t - a.t)
			}
			// An error counts less the later it is.
			if off := math.Abs(curve[i].left-line) / (1 + curve[i].t - curve[0].t); off > s.off {
				s.worst, s.off = i, off
			}
		}
		return s
	}
	spans := []span{measure(0, len(curve)-1)}
	keep := []int{0, len(curve) - 1}
	for len(keep) < n {
		at := 0
		for i := range spans {
			if spans[i].off > spans[at].off {
				at = i
			}
		}
		s := spans[at]
		if s.off < 0 {
			break
		}
		keep = append(keep, s.worst)
		spans[at] = measure(s.from, s.worst)
		spans = append(spans, measure(s.worst, s.to))
	}
	slices.Sort(keep)
	few := make([]bend, len(keep))
	for i, at := range keep {
		few[i] = curve[at]
	}
	for i := range few[:len(few)-1] { // a bend whose successor was left out has the mean rate of both
		a, b := &few[i], few[i+1]
		if keep[i+1] > keep[i]+1 && b.t > a.t {
			a.rate = (a.left - b.left) / (b.t - a.t)
		}
	}
	return few
}

// Sum returns the sum of forecasts of different queues as of now, which may be a little later than their beginnings.
// Its last bend has the cause of the queue with the most jobs that never leave; the others have none.
func Sum(now time.Time, all []*queue.Forecast) queue.Forecast {
	type turn struct{ t, slope, drop float64 } // at t the outflow changes by slope, and drop jobs leave at once
	var turns []turn
	sum := queue.Forecast{Exact: len(all) > 0}
	left, stuck, most, never := 0.0, 0.0, 0.0, verdict{}
	for _, f := range all {
		sum.Exact, sum.Estimated = sum.Exact && f.Exact, sum.Estimated || f.Estimated
		last := &f.Bends[len(f.Bends)-1]
		if f.Never() && last.Remaining > most {
			most, never = last.Remaining, verdict{by: last.By, queue: last.Queue, reason: last.Reason}
		}
		if f.Finish.After(sum.Finish) {
			sum.Finish = f.Finish
		}
		left, stuck = left+last.Remaining, stuck+last.Remaining
		for n := range f.Bends[1:] {
			a, b := &f.Bends[n], &f.Bends[n+1]
			from, to := a.At.Sub(now).Seconds(), b.At.Sub(now).Seconds()
			drop := a.Remaining - b.Remaining
			switch {
			case to < 0 || to == 0 && from < 0:
				continue // it has left
			case to <= from:
				turns = append(turns, turn{t: from, drop: drop})
			default:
				slope := drop / (to - from)
				from = max(0, from)
				drop = slope * (to - from)
				turns = append(turns, turn{t: from, slope: slope}, turn{t: to, slope: -slope})
			}
			left += drop
		}
	}
	if most > 0 {
		sum.Finish = time.Time{}
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.t, b.t) })
	curve := []bend{{left: left, drained: -1}}
	for n, turn := range turns {
		at := &curve[len(curve)-1]
		if turn.t > at.t {
			curve = append(curve, bend{t: turn.t, left: at.left - at.rate*(turn.t-at.t), rate: at.rate, drained: -1})
			at = &curve[len(curve)-1]
		}
		if turn.drop > 0 {
			curve = append(curve, bend{t: at.t, left: at.left - turn.drop, rate: at.rate, drained: -1})
			at = &curve[len(curve)-1]
		}
		at.rate += turn.slope
		if n == len(turns)-1 { // rounding errors have added up
			at.left, at.rate = stuck, 0
		}
	}
	curve[len(curve)-1].by = never
	for _, b := range simplified(curve, queue.MaxBends) {
		sum.Bends = append(sum.Bends, queue.Bend{
			At: now.Add(time.Duration(min(b.t, 9e9) * float64(time.Second))), Remaining: max(0, b.left), Rate: max(0, b.rate),
			By: b.by.by, Queue: b.by.queue, Reason: b.by.reason, Drained: -1,
		})
	}
	return sum
}
