package survey

import (
	"math"
	"time"

	"github.com/penstock/penstock/queue"
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
	gone            // jobs that left the queue in any way
	columns
)

// Column describes a column of a history.
type Column struct {
	Name string
	// counts makes the values counts since the queue was created. A History has their rates.
	counts bool
	// highest makes a coarse sample the maximum of the fine ones instead of their mean.
	highest bool
	// scale is the number of steps per unit in which the store keeps a value that is no count.
	scale float64
}

// Columns are the columns of a history.
var Columns = [columns]Column{
	in:       {Name: "in", counts: true},
	out:      {Name: "out", counts: true},
	refused:  {Name: "refused", counts: true},
	released: {Name: "released", counts: true},
	depth:    {Name: "depth", highest: true, scale: 1},
	backlog:  {Name: "deferred", highest: true, scale: 1},
	oldest:   {Name: "oldest", highest: true, scale: 1},
	outflow:  {Name: "outflow", scale: 100},
	rate:     {Name: "rate", scale: 1000},
	gone:     {Name: "left", counts: true},
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

// Slots of a history. One more than is shown: the rate of the first slot shown needs the count before it.
const (
	fineSlots   = int64(15*time.Minute/Step) + 1
	coarseStep  = 5 * time.Minute
	coarseSlots = int64(24*time.Hour/coarseStep) + 1
)

// sample is a value for each column.
type sample [columns]float64

var unknown = math.NaN()

func sampleOf(r *Row, now time.Time) (s sample) {
	c := &r.Counters
	s[in], s[out], s[refused], s[released] = float64(came(c)), float64(left(c)), float64(c.Refused), float64(c.Released)
	s[gone] = float64(max(0, came(c)-r.Size))
	s[depth], s[backlog], s[outflow], s[rate] = float64(r.Size), float64(r.Deferred), r.Outflow, unknown
	if !r.Rate.Unlimited() {
		s[rate] = r.Rate.PerSecond()
	}
	if i := r.Info; i != nil && r.Size > 0 && !i.OldestWaiting.IsZero() {
		s[oldest] = max(0, now.Sub(r.infoAt).Seconds()+i.Now.Sub(i.OldestWaiting).Seconds())
	}
	return s
}

// recreated reports whether the counters started over since s: the queue was deleted and created again.
func (s *sample) recreated(c *queue.Counters) bool {
	return float64(came(c)) < s[in] || float64(left(c)) < s[out] || float64(c.Refused) < s[refused]
}

// word packs a value into 32 bits: a count modulo 2^32, or a float32.
func word(column int, v float64) uint32 {
	if Columns[column].counts {
		return uint32(int64(v))
	}
	return math.Float32bits(float32(v))
}

// clock records when the queues were read: the time of the reading of each slot, in ns since 1970, or 0 if they were
// not read in that slot. A slot missing here is missing in every history.
type clock struct {
	fine, coarse int64 // the current slots, counted from 1970; 0 before the first
	began        int64 // the first reading
	at           [fineSlots]int64
	atCoarse     [coarseSlots]int64
}

// steps reports whether now is in another step than the current one.
func (c *clock) steps(now time.Time) bool { return now.UnixNano()/int64(Step) != c.fine }

// advance moves to the step of now, and reports whether the step changed. The reading also stands for missed slots up
// to covers before it.
func (c *clock) advance(now time.Time, covers time.Duration) bool {
	fine, coarse := now.UnixNano()/int64(Step), now.UnixNano()/int64(coarseStep)
	if fine == c.fine {
		return false
	}
	if fine < c.fine { // the clock was set back: older slots are not comparable
		*c = clock{}
	}
	if c.fine == 0 {
		c.began = now.UnixNano()
	}
	pass(c.at[:], c.fine, fine, int64(Step), now, covers)
	pass(c.atCoarse[:], c.coarse, coarse, int64(coarseStep), now, covers)
	c.fine, c.coarse = fine, coarse
	return true
}

// pass marks the slot now as read, and the slots between last and now as missed or covered.
func pass(at []int64, last, now, step int64, read time.Time, covers time.Duration) {
	n := int64(len(at))
	for slot := max(last+1, now-n+1); slot < now; slot++ {
		if at[slot%n] = 0; slot*step >= read.Add(-covers).UnixNano() {
			at[slot%n] = read.UnixNano()
		}
	}
	at[now%n] = read.UnixNano()
}

// history holds the samples of a queue in both windows.
type history struct {
	since        time.Time
	base, last   sample // at since, and the latest
	first        int64  // the first fine slot
	fineSlot     int64  // the last slots with a sample
	coarseSlot   int64
	merged       [columns]float64 // number of values in the last coarse slot, without NaN
	fine, rough  [columns]ring
	presentRough sample
}

// newHistory returns the history of a queue that is first seen in the current slots of the clock.
func newHistory(c *clock, since time.Time, s sample) *history {
	return &history{since: since, base: s, first: c.fine, fineSlot: c.fine - 1, coarseSlot: c.coarse - 1}
}

// add adds a sample to the current slots, and to the slots since the last sample.
func (h *history) add(c *clock, s sample) {
	from := h.coarseSlot
	if h.coarseSlot != c.coarse {
		from, h.merged, h.presentRough = h.coarseSlot+1, [columns]float64{}, s
	}
	for n := range columns {
		if s[n] == s[n] {
			h.merged[n]++
		}
		h.fine[n].fill(h.fineSlot+1, c.fine, fineSlots, word(n, s[n]))
		was := h.presentRough[n]
		switch {
		case was != was || Columns[n].counts: // NaN
			h.presentRough[n] = s[n]
		case s[n] != s[n]:
		case Columns[n].highest:
			h.presentRough[n] = max(was, s[n])
		default:
			h.presentRough[n] = was + (s[n]-was)/h.merged[n]
		}
		h.rough[n].fill(from, c.coarse, coarseSlots, word(n, h.presentRough[n]))
	}
	h.fineSlot, h.coarseSlot, h.last = c.fine, c.coarse, s
}

// ring holds the last values of one column. Equal values take no memory.
type ring struct {
	alike  uint32
	begun  bool
	values []uint32
}

// fill sets the slots from one to another.
func (r *ring) fill(from, to, slots int64, v uint32) {
	for slot := max(min(from, to), to-slots+1); slot <= to; slot++ {
		r.set(slot, slots, v)
	}
}

func (r *ring) set(slot, slots int64, v uint32) {
	at := slot % slots
	switch {
	case !r.begun:
		r.begun, r.alike = true, v
	case r.values == nil && r.alike == v:
	case r.values == nil:
		r.values = make([]uint32, slots)
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
		if v != r.values[0] {
			return
		}
	}
	r.alike, r.values = r.values[0], nil
}

func (r *ring) at(slot, slots int64) uint32 {
	if r.values == nil {
		return r.alike
	}
	return r.values[slot%slots]
}

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
	f := s.frame(window)
	h := History{From: time.Unix(0, f.first*f.step).UTC(), Step: window.Step}
	var kept *history
	if t := s.tracks[name]; t != nil && t.history != nil {
		kept, h.Since = t.history, t.history.since
	}
	for n := range columns {
		h.Values[n] = f.values(kept, n)
	}
	return h
}

// frame is the part of the clock that a window shows.
type frame struct {
	first, last int64   // slots, counted from 1970
	began       int64   // the first reading of all, in ns
	step        int64   // in ns
	at          []int64 // when each slot was read, by slot modulo its length
	coarse      bool
}

func (s *Survey) frame(window Window) frame {
	f := frame{
		last: s.clock.fine, began: s.clock.began, step: int64(window.Step), at: s.clock.at[:], coarse: window == Coarse,
	}
	if f.coarse {
		f.last, f.at = s.clock.coarse, s.clock.atCoarse[:]
	}
	if s.clock.fine == 0 { // before the first reading
		f.last = s.o.Now().UnixNano() / f.step
	}
	f.first = f.last - int64(window.Span/window.Step) + 1
	return f
}

// readAt returns when a slot was read; 0 if it was not, or the queue was not known then.
func (f *frame) readAt(h *history, slot int64) int64 {
	if h == nil || slot < h.first*int64(Step)/f.step || slot <= f.last-int64(len(f.at)) {
		return 0
	}
	return f.at[slot%int64(len(f.at))]
}

// word returns what a slot of a history holds.
func (f *frame) word(h *history, column int, slot int64) uint32 {
	if f.coarse {
		return h.rough[column].at(slot, coarseSlots)
	}
	return h.fine[column].at(slot, fineSlots)
}

// values returns the values of a column; of counts, their rates.
func (f *frame) values(h *history, column int) []float32 {
	values := make([]float32, 0, f.last-f.first+1)
	var before, current reading
	if h != nil && h.first*int64(Step)/f.step >= f.first-1 { // it begins in the window
		current = reading{h.since.UnixNano(), word(column, h.base[column])}
	}
	for slot := f.first - 1; slot <= f.last; slot++ {
		value := float32(unknown)
		at := f.readAt(h, slot)
		switch {
		case at == 0:
		case !Columns[column].counts:
			value = math.Float32frombits(f.word(h, column, slot))
		default:
			if at != current.at { // a reading may stand for several slots
				before, current = current, reading{at, f.word(h, column, slot)}
			}
			value = before.rateUntil(current)
		}
		if slot >= f.first {
			values = append(values, value)
		}
	}
	return values
}

// reading is a count at an instant in ns.
type reading struct {
	at    int64
	count uint32
}

// rateUntil returns the rate between two readings; NaN if the first is unknown.
func (r reading) rateUntil(next reading) float32 {
	if r.at == 0 || next.at <= r.at {
		return float32(unknown)
	}
	return float32(float64(next.count-r.count) / time.Duration(next.at-r.at).Seconds())
}
