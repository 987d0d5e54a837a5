package law

import "time"

// Hours is the law of hours: nothing departs outside the Open spans. A start may be seen up to Late after its
// departure.
type Hours struct {
	Open []Span // ascending and apart
	Late time.Duration
}

// Span is a half-open span of time.
type Span struct{ From, Until time.Duration }

// HoursVerdict is the result of Hours.Judge.
type HoursVerdict struct {
	Starts  []int64       // in each span
	Outside int64         // starts of jobs that departed in no span
	First   time.Duration // the earliest of these
}

// Judge examines every start.
func (h Hours) Judge(starts []Start) HoursVerdict {
	v := HoursVerdict{Starts: make([]int64, len(h.Open))}
starts:
	for _, s := range starts {
		for i, o := range h.Open {
			if o.From <= s.At && s.At < o.Until+h.Late {
				v.Starts[i]++
				continue starts
			}
		}
		if v.Outside++; v.Outside == 1 || s.At < v.First {
			v.First = s.At
		}
	}
	return v
}
