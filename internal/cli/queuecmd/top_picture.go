package queuecmd

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// picture is what top shows: the queues at the last successful refresh, and the change of their counters since the
// refresh before it.
type picture struct {
	At     time.Time `json:"at"`
	Server string    `json:"server"`
	// Seconds is the time between the two refreshes; 0 after the first.
	Seconds float64 `json:"seconds"`
	// Error is why the last refresh failed.
	Error    string        `json:"error,omitempty"`
	Drainers wire.Drainers `json:"drainers"`
	Queues   []flow        `json:"queues"`

	sort   string
	seen   time.Time // time of the last successful refresh
	counts map[string]counts
}

// flow is one queue of a picture.
type flow struct {
	Name     string        `json:"name"`
	State    string        `json:"state"`
	Paused   bool          `json:"paused"`
	Pause    *queue.Pause  `json:"pause,omitempty"`
	Stop     *queue.Stop   `json:"stop,omitempty"`
	Circuit  *wire.Circuit `json:"circuit_state,omitempty"`
	Rate     string        `json:"rate"`
	Size     int64         `json:"size"`
	Capacity int64         `json:"capacity"`
	Fullness float64       `json:"fullness"`
	Deferred int64         `json:"deferred"`
	Out      float64       `json:"out_per_s"`
	// Calls are the calls through the server's proxy; absent for a queue without a proxy.
	Calls *wire.Calls `json:"calls,omitempty"`
	// Verdict is how bad the worst problem of the queue is, and Outlook the delay and the finish: as of the server's last
	// survey, absent while unknown.
	Verdict wire.Verdict  `json:"verdict,omitempty"`
	Outlook *wire.Outlook `json:"outlook,omitempty"`
	*speeds
}

// speeds are counters per second. A queue that is new since the last refresh has none.
type speeds struct {
	In       float64 `json:"in_per_s"`
	Refused  float64 `json:"refused_per_s"`
	Deferred float64 `json:"deferred_per_s"`
	Lost     float64 `json:"lost_per_s"`
}

// counts are the counters behind speeds.
type counts struct{ in, refused, deferred, lost int64 }

func countsOf(s *wire.Stats) counts {
	return counts{in: s.Appended + s.Replayed, refused: s.Refused, deferred: s.SetAside, lost: s.Lost}
}

// failed records that a refresh failed.
func (p *picture) failed(err error) { p.At, p.Error = time.Now(), err.Error() }

// see records a successful refresh.
func (p *picture) see(queues []wire.Queue, rows []wire.QueueRow, now time.Time) {
	surveyed := make(map[string]*wire.QueueRow, len(rows))
	for i := range rows {
		surveyed[rows[i].Name] = &rows[i]
	}
	p.Seconds = 0
	if !p.seen.IsZero() {
		p.Seconds = now.Sub(p.seen).Seconds()
	}
	before := p.counts
	p.At, p.seen, p.Error = now, now, ""
	p.Queues, p.counts = make([]flow, 0, len(queues)), make(map[string]counts, len(queues))
	for i := range queues {
		q := &queues[i]
		f := flow{
			Name: q.Name, State: State(q), Paused: q.Paused, Pause: q.Pause, Stop: q.Stop, Circuit: q.CircuitState,
			Rate: Rate(q),
			Size: q.Stats.Size(), Capacity: q.Capacity, Deferred: q.Stats.Deferred, Out: q.Stats.Outflow,
			Calls: q.Calls,
		}
		if row := surveyed[q.Name]; row != nil {
			f.Verdict, f.Outlook = row.Verdict, row.Outlook
		}
		if q.Capacity > 0 {
			f.Fullness = float64(f.Size) / float64(q.Capacity)
		}
		c := countsOf(&q.Stats)
		if b, known := before[q.Name]; known {
			f.speeds = c.since(b, p.Seconds)
		}
		p.counts[q.Name] = c
		p.Queues = append(p.Queues, f)
	}
	p.order()
}

// since returns the speeds between two counts. It returns nil if a counter decreased, because the queue was then
// deleted and created again. Only the count of deferred jobs may decrease otherwise: jobs that found no room on the
// overflow are subtracted.
func (c counts) since(b counts, seconds float64) *speeds {
	d := counts{c.in - b.in, c.refused - b.refused, max(0, c.deferred-b.deferred), c.lost - b.lost}
	if seconds <= 0 || min(d.in, d.refused, d.lost) < 0 {
		return nil
	}
	return &speeds{
		float64(d.in) / seconds, float64(d.refused) / seconds, float64(d.deferred) / seconds, float64(d.lost) / seconds,
	}
}

// topOrders are the orders of queues: the highest value comes first.
var topOrders = []struct {
	name string
	of   func(f *flow) float64
}{
	{"trouble", func(f *flow) float64 { return float64(slices.Index(verdicts, f.Verdict)) }},
	{"fullness", func(f *flow) float64 { return f.Fullness }},
	{"name", func(*flow) float64 { return 0 }},
	{"size", func(f *flow) float64 { return float64(f.Size) }},
	{"in", func(f *flow) float64 { return f.speed().In }},
	{"out", func(f *flow) float64 { return f.Out }},
	{"refused", func(f *flow) float64 { return f.speed().Refused }},
	{"deferred", func(f *flow) float64 { return f.speed().Deferred }},
	{"lost", func(f *flow) float64 { return f.speed().Lost }},
	{"delay", func(f *flow) float64 {
		switch o := f.Outlook; {
		case o == nil:
			return -1
		case o.DelaySeconds == nil:
			return math.Inf(1)
		default:
			return *o.DelaySeconds
		}
	}},
	{"finish", func(f *flow) float64 {
		switch o := f.Outlook; {
		case o == nil:
			return -1
		case o.FinishAt == nil:
			return math.Inf(1)
		default:
			return float64(o.FinishAt.UnixMicro())
		}
	}},
}

// verdicts are the verdicts, the worst last.
var verdicts = []wire.Verdict{"", wire.Warning, wire.Wrong}

// speed returns the speeds, 0 if they are not known.
func (f *flow) speed() speeds {
	if f.speeds == nil {
		return speeds{}
	}
	return *f.speeds
}

// orderIndex returns the index of the present order.
func (p *picture) orderIndex() int {
	for n := range topOrders {
		if topOrders[n].name == p.sort {
			return n
		}
	}
	return 0
}

// turn changes the order to the next one, or to the one before.
func (p *picture) turn(by int) {
	p.sort = topOrders[(p.orderIndex()+by+len(topOrders))%len(topOrders)].name
	p.order()
}

// order sorts the queues. Queues with equal trouble are sorted by fullness, and then all by name.
func (p *picture) order() {
	by := topOrders[p.orderIndex()]
	slices.SortFunc(p.Queues, func(a, b flow) int {
		first := cmp.Compare(by.of(&b), by.of(&a))
		if by.name == "trouble" {
			first = cmp.Or(first, cmp.Compare(b.Fullness, a.Fullness))
		}
		return cmp.Or(first, cmp.Compare(a.Name, b.Name))
	})
}
