package queuecmd

import (
	"cmp"
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
func (p *picture) see(queues []wire.Queue, now time.Time) {
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

// order sorts the queues, equal ones by name.
func (p *picture) order() {
	by := func(f *flow) float64 {
		s := f.speeds
		if s == nil {
			s = &speeds{}
		}
		switch p.sort {
		case "fullness":
			return f.Fullness
		case "size":
			return float64(f.Size)
		case "out":
			return f.Out
		case "in":
			return s.In
		case "refused":
			return s.Refused
		case "deferred":
			return s.Deferred
		case "lost":
			return s.Lost
		}
		return 0 // by name
	}
	slices.SortFunc(p.Queues, func(a, b flow) int {
		return cmp.Or(cmp.Compare(by(&b), by(&a)), cmp.Compare(a.Name, b.Name))
	})
}
