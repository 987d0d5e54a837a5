package survey

import (
	"time"
)

// Curves is what came into queues and what left them, as two cumulative curves (Newell curves). The vertical distance
// of the curves is the number of jobs in the queues, their horizontal distance the delay, and the slope the rate.
type Curves struct {
	Points []CurvePoint // in order of time; empty if nothing is known
	Marks  []Mark       // in order of time
}

// CurvePoint is the state at a reading. At the first point, Left and Refused are 0.
type CurvePoint struct {
	At      time.Time
	Arrived int64 // jobs accepted, those in the queues at the first point included
	Left    int64 // jobs that left in any way: Arrived minus the jobs in the queues
	Refused int64 // jobs refused for lack of room
}

// Depth returns the number of jobs in the queues.
func (p CurvePoint) Depth() int64 { return p.Arrived - p.Left }

// Curves sums up the queues for which wanted returns true over the last span, at most 24 hours; nil wants all. A span
// of up to 15 minutes has a point every 5 s, a longer one every 5 min, and less often before a restart. A queue counts
// from when it was first seen, and a deleted queue not at all.
func (s *Survey) Curves(span time.Duration, wanted func(name string) bool) Curves {
	window := Fine
	if span > Fine.Span {
		window = Coarse
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.frame(window)
	f.first = max(f.first, f.last-int64(span/window.Step))
	curves := Curves{Points: f.points()}
	if len(curves.Points) == 0 {
		return curves
	}
	read := f.readings(curves.Points)
	for name, t := range s.tracks {
		if t.history != nil && (wanted == nil || wanted(name)) {
			f.addTo(curves.Points, read, t.history)
		}
	}
	for _, m := range s.marksBetween(curves.Points[0].At, s.Latest().At) {
		if m.Queue == "" || wanted == nil || wanted(m.Queue) {
			curves.Marks = append(curves.Marks, m)
		}
	}
	return curves
}

// points returns an empty point for each reading in the frame, and for the first reading of all.
func (f *frame) points() (points []CurvePoint) {
	var last int64
	if f.began/f.step >= f.first {
		points, last = append(points, CurvePoint{At: time.Unix(0, f.began).UTC()}), f.began
	}
	for slot := f.first; slot <= f.last; slot++ {
		if at := f.at[slot%int64(len(f.at))]; at > last { // a reading may stand for several slots
			points, last = append(points, CurvePoint{At: time.Unix(0, at).UTC()}), at
		}
	}
	return points
}

// slotRead is when a point was read, in ns, and a slot of that reading; -1 if it has none.
type slotRead struct{ at, slot int64 }

// readings returns the readings of the points.
func (f *frame) readings(points []CurvePoint) []slotRead {
	read, slot := make([]slotRead, len(points)), f.first
	for n := range points {
		read[n] = slotRead{points[n].At.UnixNano(), -1}
		for ; slot <= f.last && f.at[slot%int64(len(f.at))] < read[n].at; slot++ { // slots that were not read
		}
		if slot <= f.last && f.at[slot%int64(len(f.at))] == read[n].at {
			read[n].slot = slot
		}
	}
	return read
}

// addTo adds a queue to the points. It is called for every queue, so it reads the columns in place.
func (f *frame) addTo(points []CurvePoint, read []slotRead, h *history) {
	columns, slots := &h.fine, fineSlots
	if f.coarse {
		columns, slots = &h.rough, coarseSlots
	}
	first := max(h.first*int64(Step)/f.step, f.last-int64(len(f.at))+1)
	begins, known := h.since.UnixNano(), false
	var sum CurvePoint
	var came, went, kept uint32
	for n := range points {
		var c, w, k uint32
		switch slot := read[n].slot; {
		case read[n].at == begins:
			c, w, k = word(in, h.base[in]), word(gone, h.base[gone]), word(refused, h.base[refused])
		case slot >= first:
			c, w, k = columns[in].at(slot, slots), columns[gone].at(slot, slots), columns[refused].at(slot, slots)
		default:
			c, w, k = came, went, kept
		}
		if !known && (read[n].at == begins || read[n].slot >= first) {
			known, sum.Arrived = true, int64(c-w)
			came, went, kept = c, w, k
		}
		if known {
			sum.Arrived += int64(c - came)
			sum.Left += int64(w - went)
			sum.Refused += int64(k - kept)
			came, went, kept = c, w, k
			points[n].Arrived += sum.Arrived
			points[n].Left += sum.Left
			points[n].Refused += sum.Refused
		}
	}
}
