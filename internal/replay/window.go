package replay

import "github.com/penstock/penstock/leaky"

// window tracks the greatest cost asked and allowed in any span of one width. It is exact for logs with whole seconds.
// Otherwise requests closer together than a thousandth of the width count as one, so that its memory is bounded.
type window struct {
	slots            []slot
	head             int
	asked, allowed   int64 // in the present span
	mostAsked, worst int64
	worstAt          leaky.Instant
}

type slot struct {
	at             leaky.Instant
	asked, allowed int64
}

// add counts a request, which must not precede the last one.
func (w *window) add(width, at leaky.Instant, asked, allowed int64) {
	last := len(w.slots) - 1
	if last < w.head || at-w.slots[last].at >= max(width/1000, 1) {
		for w.head <= last && at-w.slots[w.head].at >= width {
			w.asked -= w.slots[w.head].asked
			w.allowed -= w.slots[w.head].allowed
			w.head++
		}
		if w.head > 0 && w.head >= len(w.slots)-w.head {
			w.slots = w.slots[:copy(w.slots, w.slots[w.head:])]
			w.head = 0
		}
		w.slots = append(w.slots, slot{at: at})
		last = len(w.slots) - 1
	}
	w.slots[last].asked += asked
	w.slots[last].allowed += allowed
	w.asked += asked
	w.allowed += allowed
	w.mostAsked = max(w.mostAsked, w.asked)
	if w.allowed > w.worst {
		w.worst, w.worstAt = w.allowed, w.slots[w.head].at
	}
}

// forget frees entries before the span, and reports whether none is left.
func (w *window) forget(width, at leaky.Instant) bool {
	if n := len(w.slots); n > 0 && at-w.slots[n-1].at < width {
		return false
	}
	w.slots, w.head, w.asked, w.allowed = nil, 0, 0, 0
	return true
}
