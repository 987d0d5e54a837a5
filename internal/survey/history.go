package survey

import (
	"math"
	"time"
)

// Columns of a history, in the order of the table.
const (
	in = iota
	out
	refused
	released
	depth
	backlog
	oldest
	outflow
	rate
	columns
)

// Column is a row of the table of what a history has.
type Column struct {
	Name, Help string
	// highest says that a coarse sample is the highest of the fine ones, instead of their mean.
	highest bool
}

// Columns are what a history has.
var Columns = [columns]Column{
	in:       {Name: "in", Help: "Jobs a second that came in, replayed ones included."},
	out:      {Name: "out", Help: "Jobs a second that were delivered."},
	refused:  {Name: "refused", Help: "Jobs a second that were turned away for want of room."},
	released: {Name: "released", Help: "Departures a second that were given back unused."},
	depth:    {Name: "depth", Help: "Jobs that hold a place, as the capacity counts them.", highest: true},
	backlog:  {Name: "deferred", Help: "Jobs on the overflow.", highest: true},
	oldest:   {Name: "oldest", Help: "Age of the job at the head, in seconds.", highest: true},
	outflow:  {Name: "outflow", Help: "Departures a second, over the last 10 to 20 s."},
	rate:     {Name: "rate", Help: "Departures a second that the rate allows now; null also if it is unlimited."},
}

// ColumnNames are their names.
func ColumnNames() []string {
	names := make([]string, columns)
	for n := range Columns {
		names[n] = Columns[n].Name
	}
	return names
}

// Window is a span of time that a history reaches back, and its step.
type Window struct {
	Span, Step time.Duration
}

// The windows.
var (
	Fine   = Window{15 * time.Minute, Step}
	Coarse = Window{24 * time.Hour, coarseStep}
)

const (
	fineSlots   = int64(15 * time.Minute / Step)
	coarseStep  = 5 * time.Minute
	coarseSlots = int64(24 * time.Hour / coarseStep)
)

// sample is a value for each column.
type sample [columns]float32

// unknown is no number.
var unknown = float32(math.NaN())

func sampleOf(r *Row, did Rates, now time.Time) (s sample) {
	s[in], s[out], s[refused] = float32(did.In), float32(did.Out), float32(did.Refused)
	s[released] = float32(did.Released)
	s[depth], s[backlog], s[outflow] = float32(r.Size), float32(r.Deferred), float32(r.Outflow)
	s[rate] = unknown
	if !r.Rate.Unlimited() {
		s[rate] = float32(r.Rate.PerSecond())
	}
	if i := r.Info; i != nil && r.Size > 0 && !i.OldestWaiting.IsZero() {
		s[oldest] = float32(max(0, now.Sub(r.infoAt).Seconds()+i.Now.Sub(i.OldestWaiting).Seconds()))
	}
	return s
}

// clock says at which steps the queues were read: what is missing there is missing in each history.
type clock struct {
	fine, coarse int64 // the present slots, counted from 1970; 0 before the first
	read         [fineSlots]bool
	readCoarse   [coarseSlots]bool
}

// steps reports whether an instant is in another step than the present one.
func (c *clock) steps(now time.Time) bool { return now.UnixNano()/int64(Step) != c.fine }

// advance goes to the step of an instant, and reports whether that is another one.
func (c *clock) advance(now time.Time) bool {
	fine, coarse := now.UnixNano()/int64(Step), now.UnixNano()/int64(coarseStep)
	if fine == c.fine {
		return false
	}
	if fine < c.fine { // the clock was set back: what was is not comparable
		*c = clock{}
	}
	pass(c.read[:], c.fine, fine)
	pass(c.readCoarse[:], c.coarse, coarse)
	c.fine, c.coarse = fine, coarse
	return true
}

// pass notes that a slot was reached, and those behind the last one were not.
func pass(read []bool, last, now int64) {
	n := int64(len(read))
	for slot := max(last+1, now-n+1); slot < now; slot++ {
		read[slot%n] = false
	}
	read[now%n] = true
}

// history is what a queue did in both windows.
type history struct {
	since        time.Time
	first        int64 // the first fine slot
	coarse       int64 // the present coarse slot, of so many samples
	merged       float32
	fine, rough  [columns]ring
	presentRough sample
}

// add adds a sample to the present slots.
func (h *history) add(c *clock, s sample) {
	if h.coarse != c.coarse {
		h.coarse, h.merged, h.presentRough = c.coarse, 0, s
	}
	h.merged++
	for n := range columns {
		h.fine[n].set(c.fine, fineSlots, s[n])
		was := h.presentRough[n]
		switch {
		case was != was: // it was not known
			h.presentRough[n] = s[n]
		case s[n] != s[n]:
		case Columns[n].highest:
			h.presentRough[n] = max(was, s[n])
		default:
			h.presentRough[n] = was + (s[n]-was)/h.merged
		}
		h.rough[n].set(c.coarse, coarseSlots, h.presentRough[n])
	}
}

// ring is the last values of one column. While they are all alike they take no memory.
type ring struct {
	alike  float32
	begun  bool
	values []float32
}

func (r *ring) set(slot, slots int64, v float32) {
	at := slot % slots
	switch {
	case !r.begun:
		r.begun, r.alike = true, v
	case r.values == nil && same(r.alike, v):
	case r.values == nil:
		r.values = make([]float32, slots)
		for n := range r.values {
			r.values[n] = r.alike
		}
		r.values[at] = v
	default:
		r.values[at] = v
		if at == 0 {
			r.compact()
		}
	}
}

// compact forgets the values if they are alike.
func (r *ring) compact() {
	for _, v := range r.values {
		if !same(v, r.values[0]) {
			return
		}
	}
	r.alike, r.values = r.values[0], nil
}

func (r *ring) at(slot, slots int64) float32 {
	if r.values == nil {
		return r.alike
	}
	return r.values[slot%slots]
}

// same reports whether two values are equal, or neither is a number.
func same(a, b float32) bool { return a == b || a != a && b != b }

// History is what a queue did in a window.
type History struct {
	From time.Time // when the first step begins
	Step time.Duration
	// Since is when the queue was first seen; zero if nothing is kept of it.
	Since time.Time
	// Values are a column each, with a value for each step. Where it is NaN the queues could not be read, or the queue
	// was not known yet.
	Values [columns][]float32
}

// History returns what a queue did in the window Fine or Coarse, up to the last reading.
func (s *Survey) History(name string, window Window) History {
	s.mu.Lock()
	defer s.mu.Unlock()
	slots, step := int64(window.Span/window.Step), int64(window.Step)
	last, read := s.clock.fine, s.clock.read[:]
	if window == Coarse {
		last, read = s.clock.coarse, s.clock.readCoarse[:]
	}
	if last == 0 { // nothing was read yet
		last = s.o.Now().UnixNano() / step
	}
	first := last - slots + 1
	h := History{From: time.Unix(0, first*step).UTC(), Step: window.Step}
	var kept *history
	if t := s.tracks[name]; t != nil && t.history != nil {
		kept, h.Since = t.history, t.history.since
	}
	for n := range columns {
		values := make([]float32, slots)
		for at := range values {
			slot := first + int64(at)
			values[at] = unknown
			switch {
			case kept == nil || !read[slot%slots] || slot < kept.first*int64(Step)/step:
			case window == Coarse:
				values[at] = kept.rough[n].at(slot, slots)
			default:
				values[at] = kept.fine[n].at(slot, slots)
			}
		}
		h.Values[n] = values
	}
	return h
}
