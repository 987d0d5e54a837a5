package prove

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
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

// QuotaReport is the verdict on a quota, with the starts in each window.
type QuotaReport struct {
	Quota string  `json:"quota"`
	Held  bool    `json:"held"`
	Used  []int64 `json:"starts_in_each_window"`

	max   int64
	worst law.Window
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

// judgeQuota uses this machine's clock, which must agree with the store's.
func (r *Report) judgeQuota(o *Options, zero time.Time) error {
	if o.Quota.Max == 0 || len(r.arrivals) == 0 {
		return nil
	}
	limit := queue.Limit{Quota: o.Quota}
	calendar, err := limit.Calendar(zero)
	if err != nil {
		return fmt.Errorf("the windows of %s: %w", o.Quota, err)
	}
	q := law.Quota{Max: o.Quota.Max, Late: o.Slack + o.Delta}
	last := r.arrivals[len(r.arrivals)-1]
	for at := calendar.End(leaky.Instant(zero.UnixMicro())); at.Time().Sub(zero) <= last; at = calendar.End(at) {
		q.Ends = append(q.Ends, at.Time().Sub(zero))
	}
	v := q.Judge(law.At(r.arrivals))
	r.Quota = &QuotaReport{Quota: o.Quota.String(), Held: v.Held, Used: v.Used, max: o.Quota.Max, worst: v.Worst}
	return nil
}

// usedUp reports whether departures used at least 97% of the quota in some window. The rest may have gone to jobs of
// killed drainers, which never arrived.
func (q *QuotaReport) usedUp() bool {
	for _, n := range q.Used {
		if n*100 >= q.max*97 {
			return true
		}
	}
	return false
}

// concludeLevels adds the broken laws of levels and quotas.
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
	switch q := r.Quota; {
	case q == nil:
	case !q.Held:
		broken("the window law of the quota %s: %d starts where %d are allowed, from %v into the run; in each window %v",
			q.Quota, q.worst.Starts, q.worst.Allowed,
			(q.worst.From - r.started).Round(time.Millisecond), q.Used)
	case !q.usedUp():
		broken("the quota %s was never used up, which proves nothing about it; in each window %v", q.Quota, q.Used)
	}
}
