package machine

import (
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
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

// hours are when deferred jobs come back.
type hours struct {
	queue.Window
	origin leaky.Instant
	edges  int
	rough  *bool // set when the hours are no longer followed
}

// mostEdges is how many openings of hours are followed. After that they count as always open.
const mostEdges = 64

func (h *hours) at(t float64) time.Time { return (h.origin + leaky.Instant(math.Round(t*1e6))).Time() }

// opens returns when jobs come back, not before t.
func (h *hours) opens(t float64) float64 {
	if h.edges > mostEdges {
		return t
	}
	at := h.at(t)
	if opens := h.Opens(at); opens.After(at) {
		if h.edges++; h.edges > mostEdges {
			*h.rough = true
		}
		return t + opens.Sub(at).Seconds()
	}
	return t
}

// changes returns after how long the hours are over, if they last now.
func (h *hours) changes(t float64) float64 {
	at := h.at(t)
	if h.edges > mostEdges || !h.Open(at) {
		return inf
	}
	closes := h.Closes(at)
	if !closes.After(at) {
		return inf
	}
	return closes.Sub(at).Seconds()
}
