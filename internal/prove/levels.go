package prove

import (
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/prove/receiver"
)

// LevelReport is the window law's verdict on a queue or lane with a rate of its own.
type LevelReport struct {
	Kind   string    `json:"kind"` // queue or lane
	Name   string    `json:"name"`
	Rate   string    `json:"rate"`
	Starts int       `json:"starts"`
	Law    LawReport `json:"law"`

	arrivals []time.Duration
}

// judgeLevels judges each lane and queue by the arrivals of the jobs put into it.
func (r *Report) judgeLevels(o *Options, levels []level, b *acceptedJobs, arrivals []receiver.Arrival) {
	of := map[flow][]int{} // the levels of each flow
	at := make([][]time.Duration, len(levels))
	for _, a := range arrivals {
		f, ok := b.flowOf(a.ID)
		if !ok || len(levels) == 0 {
			continue
		}
		if _, known := of[f]; !known {
			of[f] = []int{}
			for i := range levels {
				if levels[i].of(f) {
					of[f] = append(of[f], i)
				}
			}
		}
		for _, i := range of[f] {
			at[i] = append(at[i], a.At)
		}
	}
	for i, l := range levels {
		v := LevelReport{Kind: l.kind, Name: l.name, Rate: l.rate.String(), arrivals: at[i]}
		v.Starts = len(v.arrivals)
		v.Law = Judge(law.Law{Rate: l.rate, Slack: o.Slack, Delta: o.Delta}, v.arrivals)
		r.Levels = append(r.Levels, v)
	}
}

// concludeLevels adds the broken laws of levels.
func (r *Report) concludeLevels(broken func(format string, args ...any)) {
	for _, l := range r.Levels {
		if l.Starts < 2 {
			broken("only %d jobs of the %s %s arrived, which proves nothing about it", l.Starts, l.Kind, l.Name)
		}
		if w := l.Law.Worst; !l.Law.Held {
			broken("the window law of the %s %s, %s: %d starts in %v, from %v into the run, where %d are allowed; it needed "+
				"slack + delta of %v, but has %v%s",
				l.Kind, l.Name, l.Rate, w.Starts, w.Width, (w.From - r.started).Round(time.Millisecond), w.Allowed, l.Law.Needed,
				l.Law.Slack+l.Law.Delta, r.stalledIn(w))
		}
	}
}
