package api

import (
	"maps"
	"slices"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/status"
)

// shownSpec returns a queue of which only the spec is known. Every answer with a spec goes through here, which masks
// the secrets of the target.
func shownSpec(spec queue.Spec, revision int64) wire.Queue {
	spec.Deliver = secrets.Mask(spec.Deliver)
	return wire.Queue{Spec: spec, Revision: revision}
}

// shown converts a queue to its form on the wire.
func shown(i *queue.Info) wire.Queue {
	q := shownSpec(i.Spec, i.Revision)
	q.Flow = &wire.Flow{
		Status: statusOf(i), Paused: i.Pause.On(), Pause: pauseOf(i.Pause), Stop: stopOf(i.Stop),
		CircuitState: circuitOf(i), Adapted: adaptedOf(i), Stats: wire.Stats{
			Waiting: i.Waiting, Scheduled: i.Scheduled, Leased: i.Leased, HeldJobs: i.Held, Deferred: i.Deferred, Dead: i.Dead,
			Bytes: i.Bytes, MaxBytes: maxBytes(i), DeadBytes: i.DeadBytes, DeferredBytes: i.DeferredBytes,
			Lanes: i.Lanes, Children: i.Group.Children, Quotas: quotas(i), Budgets: budgets(i),
			Estimates:     estimates(i),
			Counters:      i.Counters,
			OldestWaiting: instant(i.OldestWaiting), Outflow: i.Outflow, Next: instant(i.Next), Errors: i.Errors,
		},
	}
	if p := i.Parent; p != nil {
		q.Parent = &wire.Parent{
			Name: p.Spec.Name, Rate: p.Rate, Paused: p.Pause.On(), Quotas: quotas(p), Budgets: budgets(p),
		}
		if perSecond, ok := i.Guaranteed(); ok {
			q.Parent.Guaranteed = toMillionth(perSecond)
		}
	}
	if q.Stats.Errors == nil {
		q.Stats.Errors = []queue.LastError{}
	}
	return q
}

func statusOf(i *queue.Info) wire.Status {
	s := status.Of(i)
	return shownStatus(&s, i)
}

// shownStatus converts a status, as of the time when the queue was read.
func shownStatus(s *status.Status, i *queue.Info) wire.Status {
	return wire.Status{
		Code: s.Code, Text: s.Text(i.Now.UTC()), Since: instant(s.Since), Until: instant(s.Until), Queue: s.Queue,
		Reason: s.Reason, By: s.By,
		ClaimedBy: s.Note,
		Full:      s.Full,
		LastAsked: instant(i.Asked),
	}
}

// maxBytes returns the limit of a queue in bytes, 0 for none.
func maxBytes(i *queue.Info) int64 {
	if i.MaxBytes == queue.AnyBytes {
		return 0
	}
	return i.MaxBytes
}

// adaptedOf returns the adapted rate, nil for a queue without adapt or learn.
func adaptedOf(i *queue.Info) *wire.Adapted {
	if !i.Spec.Adapts() {
		return nil
	}
	a := &wire.Adapted{Rate: i.Rate, PerSecond: i.Rate.PerSecond(), Changes: []queue.RateChange{}}
	for _, c := range i.RateChanges {
		c.At = c.At.UTC()
		a.Changes = append(a.Changes, c)
	}
	return a
}

// quotas returns the usage of each quota of a queue.
func quotas(i *queue.Info) []wire.Quota {
	var list []wire.Quota
	for k, l := range i.Spec.Limits {
		s, ok := i.QuotaState(k)
		if !ok {
			continue
		}
		q := wire.Quota{
			Unit: l.Counts(), Quota: queue.Quota{Max: s.Max, Per: l.Quota.Per}, Timezone: l.Timezone,
			Used: s.Used, Left: s.Left(), Ends: s.Ends.Time().UTC(),
		}
		if l.Ramp.On() {
			q.Ramp = &wire.Ramp{Step: s.Ramp.Step, Steps: s.Ramp.Steps, Next: s.Ramp.Next, From: l.Ramp.From}
		}
		list = append(list, q)
	}
	return list
}

// budgets returns the usage of each rate of a queue that counts another unit than jobs.
func budgets(i *queue.Info) []wire.Budget {
	var list []wire.Budget
	for k, l := range i.Spec.Limits {
		if s, ok := i.BudgetState(k); ok {
			list = append(list, wire.Budget{
				Unit: l.Unit, Rate: l.Rate, Burst: max(1, l.Burst), Used: s.Used, Free: s.Free.UTC(),
			})
		}
	}
	return list
}

// estimates returns what the estimates of a queue that learn have learned.
func estimates(i *queue.Info) []wire.Estimate {
	var list []wire.Estimate
	for _, unit := range slices.Sorted(maps.Keys(i.Spec.Estimate)) {
		e := wire.Estimate{Unit: unit, Learn: i.Spec.Estimate[unit].Learn}
		if e.Learn == "" {
			continue
		}
		e.Cost, _ = i.Expected(&i.Spec, unit)
		for _, l := range i.Learned {
			if l.Unit == unit {
				e.Known = l.Costs.Costs()
			}
		}
		list = append(list, e)
	}
	return list
}

// pauseOf returns a pause in UTC, nil if the queue is not paused.
func pauseOf(p queue.Pause) *queue.Pause {
	if !p.On() {
		return nil
	}
	p.Since, p.Until = p.Since.UTC(), p.Until.UTC()
	return &p
}

// stopOf returns a stop in UTC, nil if there is none.
func stopOf(s queue.Stop) *queue.Stop {
	if !s.On() {
		return nil
	}
	s.Until = s.Until.UTC()
	return &s
}

func circuitOf(i *queue.Info) *wire.Circuit {
	c := &i.Circuit
	v := &wire.Circuit{State: "closed", Failures: c.Failures}
	if c.Open() {
		v.State, v.Opened, v.NextProbe, v.Probe, v.Reason = "open", instant(c.Opened), instant(
			i.Stop.Until,
		), c.Probe, c.Reason
	}
	return v
}

// instant returns t in UTC, nil for the zero time.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// caches are the shared reads of single queues and rules.
type caches struct {
	infos      httpio.Shared[seenAs, queue.Info]
	timetables httpio.Shared[timetableKey, quote.Timetable]
	lanes      httpio.Shared[lanesKey, rankedLanes]
	forecasts  httpio.Shared[seenAs, sharedForecast]
	curves     httpio.Shared[curvesKey, survey.Curves]
	rules      httpio.Shared[string, rules.Info]
}

// seenAs identifies a queue and its status at the last survey. A client that was told of a change is not shown an older
// state.
type seenAs struct {
	queue    string
	revision int64
	code     status.Code
	full     bool
}

func (h *handler) seenAs(name string) seenAs {
	s := seenAs{queue: name}
	if row := h.o.Survey.Latest().Row(name); row != nil {
		s.revision, s.code, s.full = row.Revision, row.Status.Code, row.Status.Full
	}
	return s
}

type timetableKey struct {
	seenAs
	span time.Duration
}

// sharedForecast is a forecast as of now, with the keys of the lanes whose end bends it. unchanged is the end without
// the assumed settings, nil if none are assumed.
type sharedForecast struct {
	now       time.Time
	of        queue.Forecast
	keys      map[int]string
	unchanged *wire.ForecastEnd
}

// curvesKey identifies the curves of the queues that readSelection selects.
type curvesKey struct {
	span        time.Duration
	names, text string
}

// forget drops all cached reads. It is called after every change.
func (c *caches) forget() {
	c.infos.Forget()
	c.timetables.Forget()
	c.lanes.Forget()
	c.forecasts.Forget()
	c.curves.Forget()
	c.rules.Forget()
}
