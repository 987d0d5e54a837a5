package prove

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// maxHoursRun is the maximum duration of a run with hours, whose spans are few.
const maxHoursRun = 45 * time.Minute

// validateWindows checks what depends on the minutes of the clock. A run must show a minute in which the ramp has grown
// or the queue was closed, and the one after it.
func (o *Options) validateWindows() error {
	switch {
	case o.Quota.Max > 0 && o.Ramp != nil:
		return errors.New("ramp: is a quota a minute by itself; leave out quota")
	case o.Quota.Max > 0 && o.Quota.Per != "m":
		return fmt.Errorf("quota: %s must be one a minute, such as 3000/m: no run is long enough for others", o.Quota)
	case o.Quota.Max > 0 && o.Duration <= time.Minute:
		return fmt.Errorf("duration: %v must be longer than a minute, or no window of the quota ends in it", o.Duration)
	case (o.Ramp != nil || o.Hours) && o.Duration <= 2*time.Minute:
		return fmt.Errorf("duration: %v must be longer than 2m0s: a ramp grows each minute, and hours close for a minute",
			o.Duration)
	case o.Hours && o.Duration > maxHoursRun:
		return fmt.Errorf("duration: %v with hours must be at most %v", o.Duration, maxHoursRun)
	case o.Ramp == nil:
		return nil
	}
	ascending := slices.IsSorted(o.Ramp) && len(slices.Compact(slices.Clone(o.Ramp))) == len(o.Ramp)
	if n := len(o.Ramp); n < 2 || n > queue.MaxRampSteps || !ascending || o.Ramp[0] < 1 || o.Ramp[n-1] > queue.MaxQuota {
		return fmt.Errorf("ramp: %v must be from 2 to %d ascending numbers, such as 1000,2000,3000", o.Ramp,
			queue.MaxRampSteps)
	}
	return nil
}

// quota returns the quota of the first queue. It has none if the run has no quota and no ramp.
func (o *Options) quota() queue.Limit {
	if o.Ramp == nil {
		return queue.Limit{Quota: o.Quota}
	}
	return queue.Limit{
		Quota: queue.Quota{Max: o.Ramp[0], Per: "m"},
		Ramp:  queue.Ramp{Steps: queue.StepsOf(o.Ramp...), Idle: queue.RampHold},
	}
}

// QuotaReport is the verdict on a quota, with the starts in each window, and the maximum of each.
type QuotaReport struct {
	Quota string  `json:"quota"`
	Held  bool    `json:"held"`
	Used  []int64 `json:"starts_in_each_window"`
	Most  []int64 `json:"maximum_of_each_window"`

	ramp  bool
	worst law.Window
}

// judgeQuota uses this machine's clock, which must agree with the store's.
func (r *Report) judgeQuota(o *Options, zero time.Time) error {
	limit := o.quota()
	if !limit.HasQuota() || len(r.arrivals) == 0 {
		return nil
	}
	calendar, err := limit.Calendar(zero)
	if err != nil {
		return fmt.Errorf("the windows of %s: %w", limit.String(), err)
	}
	q := law.Quota{Max: limit.Quota.Max, Steps: o.Ramp, Late: o.Slack + o.Delta}
	last := r.arrivals[len(r.arrivals)-1]
	for at := calendar.End(leaky.Instant(zero.UnixMicro())); at.Time().Sub(zero) <= last; at = calendar.End(at) {
		q.Ends = append(q.Ends, at.Time().Sub(zero))
	}
	v := q.Judge(law.At(r.arrivals))
	r.Quota = &QuotaReport{
		Quota: limit.String(), Held: v.Held, Used: v.Used, Most: v.Most, ramp: o.Ramp != nil, worst: v.Worst,
	}
	return nil
}

// usedUp reports whether departures used at least 97% of the quota in some window, which must have a greater maximum
// than the first one if there is a ramp. The rest may have gone to jobs of killed drainers, which never arrived.
func (q *QuotaReport) usedUp() bool {
	for i, n := range q.Used {
		if n*100 >= q.Most[i]*97 && (!q.ramp || q.Most[i] > q.Most[0]) {
			return true
		}
	}
	return false
}

// concludeQuota adds the broken law of a quota.
func (r *Report) concludeQuota(broken func(format string, args ...any)) {
	q := r.Quota
	switch {
	case q == nil:
	case !q.Held:
		broken("the window law of the quota %s: %d starts where %d are allowed, from %v into the run; in each window %v, "+
			"where %v are allowed", q.Quota, q.worst.Starts, q.worst.Allowed,
			(q.worst.From - r.started).Round(time.Millisecond), q.Used, q.Most)
	case !q.usedUp() && q.ramp:
		broken("the quota %s was never used up after it had grown, which proves nothing about it; in each window %v, where "+
			"%v are allowed", q.Quota, q.Used, q.Most)
	case !q.usedUp():
		broken("the quota %s was never used up, which proves nothing about it; in each window %v", q.Quota, q.Used)
	}
}

// openSpan is a span of the hours of a queue.
type openSpan struct{ from, until time.Time }

// openSpans are every second minute from now on, and two hours at the end, for jobs that are left.
func openSpans(now time.Time) (open []openSpan) {
	at := now.UTC().Truncate(time.Minute)
	for range queue.MaxHoursOpen - 1 {
		open = append(open, openSpan{at, at.Add(time.Minute)})
		at = at.Add(2 * time.Minute)
	}
	return append(open, openSpan{at, at.Add(2 * time.Hour)})
}

func hoursOf(open []openSpan) queue.Hours {
	var spans []string
	for _, s := range open {
		spans = append(spans, s.from.Format("15:04")+"-"+s.until.Format("15:04"))
	}
	return queue.OpenHours{Open: queue.ListOf(spans...)}.Hours()
}

// HoursReport is the verdict on hours, with the starts in each open minute.
type HoursReport struct {
	Held    bool    `json:"held"`
	Starts  []int64 `json:"starts_in_each_open_minute"`
	Outside int64   `json:"starts_while_closed"`

	first time.Duration // outside
}

// judgeHours uses this machine's clock, which must agree with the store's.
func (r *Report) judgeHours(o *Options, open []openSpan, zero time.Time) {
	if len(open) == 0 || len(r.arrivals) == 0 {
		return
	}
	h := law.Hours{Late: o.Slack + o.Delta}
	for _, s := range open {
		if from := s.from.Sub(zero); from <= r.arrivals[len(r.arrivals)-1] {
			h.Open = append(h.Open, law.Span{From: from, Until: s.until.Sub(zero)})
		}
	}
	v := h.Judge(law.At(r.arrivals))
	r.Hours = &HoursReport{Held: v.Outside == 0, Starts: v.Starts, Outside: v.Outside, first: v.First}
}

// reopened reports whether jobs left in two open minutes, so that the queue was closed and opened again.
func (h *HoursReport) reopened() bool {
	minutes := 0
	for _, n := range h.Starts {
		if n > 0 {
			minutes++
		}
	}
	return minutes >= 2
}

// concludeHours adds the broken law of hours.
func (r *Report) concludeHours(broken func(format string, args ...any)) {
	h := r.Hours
	switch {
	case h == nil:
	case !h.Held:
		broken("the window law of the hours: %d starts while closed, the first %v into the run; in each open minute %v",
			h.Outside, (h.first - r.started).Round(time.Millisecond), h.Starts)
	case !h.reopened():
		broken("the queue did not close and open again with jobs waiting, which proves nothing about hours; in each open "+
			"minute %v", h.Starts)
	}
}
