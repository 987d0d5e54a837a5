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
	for name, t := range s.tracks {
		if t.history != nil && (wanted == nil || wanted(name)) {
			f.addTo(curves.Points, t.history)
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

// addTo adds a queue to the points.
func (f *frame) addTo(points []CurvePoint, h *history) {
	var sum CurvePoint
	var before [columns]uint32
	known, slot := false, f.first
	for n := range points {
		for ; slot <= f.last && f.at[slot%int64(len(f.at))] < points[n].At.UnixNano(); slot++ { // slots that were not read
		}
		at, begins := points[n].At.UnixNano(), h.since.UnixNano()
		if at == begins || f.readAt(h, slot) == at {
			var now [columns]uint32
			for _, c := range []int{in, gone, refused} {
				if now[c] = word(c, h.base[c]); at != begins {
					now[c] = f.word(h, c, slot)
				}
			}
			if !known {
				known, sum.Arrived = true, int64(now[in]-now[gone])
				before = now
			}
			sum.Arrived += int64(now[in] - before[in])
			sum.Left += int64(now[gone] - before[gone])
			sum.Refused += int64(now[refused] - before[refused])
			before = now
		}
		points[n].Arrived += sum.Arrived
		points[n].Left += sum.Left
		points[n].Refused += sum.Refused
	}
}
