package leaky

import (
	"math"
	"sort"
)

// Hours are the spans of time in which jobs may leave. They begin and end at the edges: the first span opens, it
// closes, the second one opens, and so on. Before the first edge they are closed.
type Hours struct{ edges []Instant }

// Between returns the hours with the given edges, which ascend.
func Between(edges []Instant) Hours { return Hours{edges: edges} }

// Edges returns the argument of Between.
func (h Hours) Edges() []Instant { return h.edges }

const (
	// beyondEdges is when to look again after the last edge: the owner extends the list in time.
	beyondEdges = Instant(60_000_000)
	// etaSpans is the number of spans that an ETA follows. Further spans count as equal to these.
	etaSpans = 32
)

// after returns the number of edges at or before t. An odd number means that the hours are open at t.
func (h Hours) after(t Instant) int {
	return sort.Search(len(h.edges), func(i int) bool { return h.edges[i] > t })
}

// Next returns the first instant, not before t, at which jobs may leave. Beyond the last edge it returns an instant a
// minute later, at which to look again.
func (h Hours) Next(t Instant) Instant {
	switch i := h.after(t); {
	case i%2 == 1:
		return t
	case i == len(h.edges):
		return t + beyondEdges
	default:
		return h.edges[i]
	}
}

// Since returns since when the hours have been open, if they are open at t. Otherwise it returns Next(t).
func (h Hours) Since(t Instant) Instant {
	if i := h.after(t); i%2 == 1 {
		return h.edges[i-1]
	}
	return h.Next(t)
}

// ETA returns when a job departs that has a cost of ahead before it, if only the pace and the hours hold jobs back. It
// follows a limited number of spans. Jobs beyond these are assumed to leave as fast as the ones before, on average.
func (h Hours) ETA(p Pacer, b Bucket, now Instant, ahead int64) Instant {
	begin := h.Next(now)
	if p.Rate.n == 0 {
		return begin
	}
	s := p.bounded(b, begin)
	if s.TAT < begin {
		s.TAT, s.Rem = begin, 0
	}
	// In floating point, as in Pacer.ETA. ready is when the next job could leave, left the cost before the job.
	n, d, burst := float64(p.Rate.n), float64(p.Rate.d), float64(p.burstSpan())
	at, ready, left := begin, float64(p.conforming(s)), float64(ahead)
	for span := 1; ; span++ {
		leaves := max(float64(at), ready+math.Ceil(left*d/n))
		i := h.after(at)
		if i%2 == 0 || leaves < float64(h.edges[i]) {
			return Instant(min(leaves, farthest))
		}
		closes := h.edges[i]
		if gone := math.Floor((float64(closes)-ready-1)*n/d) + 1; gone > 0 {
			left -= min(gone, left)
			ready += math.Ceil(gone * d / n)
		}
		if span == etaSpans || i+1 == len(h.edges) {
			all := max(1, float64(ahead)-left)
			return Instant(min(float64(closes)+math.Ceil(float64(closes-begin)*left/all), farthest))
		}
		at = h.edges[i+1]
		ready = max(ready, float64(at)-burst)
	}
}
