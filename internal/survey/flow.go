package survey

import (
	"time"
)

// Flow is what came into queues and what left them, as two cumulative curves (Newell curves). The vertical distance of
// the curves is the number of jobs in the queues, their horizontal distance the delay, and the slope the rate.
type Flow struct {
	Points []FlowPoint // in order of time; empty if nothing is known
	Marks  []Mark      // in order of time
}

// FlowPoint is the state at a reading. At the first point, Left and Refused are 0.
type FlowPoint struct {
	At      time.Time
	Arrived int64 // jobs accepted, those in the queues at the first point included
	Left    int64 // jobs that left in any way: Arrived minus the jobs in the queues
	Refused int64 // jobs refused for lack of room
}

// Depth returns the number of jobs in the queues.
func (p FlowPoint) Depth() int64 { return p.Arrived - p.Left }

// Flow sums up the queues for which wanted returns true over the last span, at most 24 hours; nil wants all. A span of
// up to 15 minutes has a point every 5 s, a longer one every 5 min, and less often before a restart. A queue counts
// from when it was first seen, and a deleted queue not at all.
func (s *Survey) Flow(span time.Duration, wanted func(name string) bool) Flow {
	window := Fine
	if span > Fine.Span {
		window = Coarse
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.frame(window)
	f.first = max(f.first, f.last-int64(span/window.Step))
	flow := Flow{Points: f.points()}
	if len(flow.Points) == 0 {
		return flow
	}
	for name, t := range s.tracks {
		if t.history != nil && (wanted == nil || wanted(name)) {
			f.addTo(flow.Points, t.history)
		}
	}
	for _, m := range s.marksBetween(flow.Points[0].At, time.Unix(0, f.at[f.last%int64(len(f.at))])) {
		if m.Queue == "" || wanted == nil || wanted(m.Queue) {
			flow.Marks = append(flow.Marks, m)
		}
	}
	return flow
}

// points returns an empty point for each reading in the frame.
func (f *frame) points() (points []FlowPoint) {
	var last int64
	for slot := f.first; slot <= f.last; slot++ {
		if at := f.at[slot%int64(len(f.at))]; at > last { // a reading may stand for several slots
			points, last = append(points, FlowPoint{At: time.Unix(0, at).UTC()}), at
		}
	}
	return points
}

// addTo adds a queue to the points.
func (f *frame) addTo(points []FlowPoint, h *history) {
	var sum FlowPoint
	var before [columns]uint32
	known, slot := false, f.first
	for n := range points {
		for ; slot <= f.last && f.at[slot%int64(len(f.at))] < points[n].At.UnixNano(); slot++ { // slots that were not read
		}
		if f.readAt(h, slot) != 0 {
			var now [columns]uint32
			for _, c := range []int{in, gone, refused} {
				now[c] = f.word(h, c, slot)
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
