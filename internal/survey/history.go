package survey

import (
	"math"
	"time"
)

// Columns of a history, in the order of the table. Rates are in jobs or departures per second.
const (
	in       = iota // jobs added, including replayed ones
	out             // jobs delivered
	refused         // jobs refused for lack of room
	released        // departures returned unused
	depth           // jobs in the queue, as capacity counts them
	backlog         // jobs on the overflow
	oldest          // age of the job at the head, in seconds
	outflow         // departures over the last 10 to 20 s
	rate            // the rate in effect; null if unlimited
	columns
)

// Column describes a column of a history.
type Column struct {
	Name string
	// highest makes a coarse sample the maximum of the fine ones instead of their mean.
	highest bool
}

// Columns are the columns of a history.
var Columns = [columns]Column{
	in:       {Name: "in"},
	out:      {Name: "out"},
	refused:  {Name: "refused"},
	released: {Name: "released"},
	depth:    {Name: "depth", highest: true},
	backlog:  {Name: "deferred", highest: true},
	oldest:   {Name: "oldest", highest: true},
	outflow:  {Name: "outflow"},
	rate:     {Name: "rate"},
}

// ColumnNames returns the names of the columns.
func ColumnNames() []string {
	names := make([]string, columns)
	for n := range Columns {
		names[n] = Columns[n].Name
	}
	return names
}

// Window is the span and step of a history.
type Window struct {
	Span, Step time.Duration
}

// Windows of a history.
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

// clock records at which steps the queues were read. A step missing here is missing in every history.
type clock struct {
	fine, coarse int64 // the current slots, counted from 1970; 0 before the first
	read         [fineSlots]bool
	readCoarse   [coarseSlots]bool
}

// steps reports whether now is in another step than the current one.
func (c *clock) steps(now time.Time) bool { return now.UnixNano()/int64(Step) != c.fine }

// advance moves to the step of now, and reports whether the step changed.
func (c *clock) advance(now time.Time) bool {
	fine, coarse := now.UnixNano()/int64(Step), now.UnixNano()/int64(coarseStep)
	if fine == c.fine {
		return false
	}
	if fine < c.fine { // the clock was set back: older slots are not comparable
		*c = clock{}
	}
	pass(c.read[:], c.fine, fine)
	pass(c.readCoarse[:], c.coarse, coarse)
	c.fine, c.coarse = fine, coarse
	return true
}

// pass marks the slot now as read, and the slots between last and now as missed.
func pass(read []bool, last, now int64) {
	n := int64(len(read))
	for slot := max(last+1, now-n+1); slot < now; slot++ {
		read[slot%n] = false
	}
	read[now%n] = true
}

// history holds the samples of a queue in both windows.
type history struct {
	since        time.Time
	first        int64            // the first fine slot
	coarse       int64            // the current coarse slot
	merged       [columns]float32 // number of values in it, without NaN
	fine, rough  [columns]ring
	presentRough sample
}

// add adds a sample to the current slots.
func (h *history) add(c *clock, s sample) {
	if h.coarse != c.coarse {
		h.coarse, h.merged, h.presentRough = c.coarse, [columns]float32{}, s
	}
	for n := range columns {
		if s[n] == s[n] {
			h.merged[n]++
		}
		h.fine[n].set(c.fine, fineSlots, s[n])
		was := h.presentRough[n]
		switch {
		case was != was: // NaN
			h.presentRough[n] = s[n]
		case s[n] != s[n]:
		case Columns[n].highest:
			h.presentRough[n] = max(was, s[n])
		default:
			h.presentRough[n] = was + (s[n]-was)/h.merged[n]
		}
		h.rough[n].set(c.coarse, coarseSlots, h.presentRough[n])
	}
}

// ring holds the last values of one column. Equal values take no memory.
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

// compact frees the values if they are all equal.
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

// same reports whether two values are equal or both NaN.
func same(a, b float32) bool { return a == b || a != a && b != b }

// History holds the values of a queue in a window.
type History struct {
	From time.Time // start of the first step
	Step time.Duration
	// Since is the time at which the queue was first seen; zero if it has no history.
	Since time.Time
	// Values has one value per column and step. NaN means that the queues could not be read, or that the queue was not
	// known yet.
	Values [columns][]float32
}

// History returns a queue's values in the window Fine or Coarse, up to the last reading.
func (s *Survey) History(name string, window Window) History {
	s.mu.Lock()
	defer s.mu.Unlock()
	slots, step := int64(window.Span/window.Step), int64(window.Step)
	last, read := s.clock.fine, s.clock.read[:]
	if window == Coarse {
		last, read = s.clock.coarse, s.clock.readCoarse[:]
	}
	if last == 0 { // before the first reading
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
