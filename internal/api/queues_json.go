package api

import (
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
)

// shownSpec is a queue of which no more is known than its spec. All that is shown of
// any queue goes through here, so that no answer has the secrets of a target.
func shownSpec(spec queue.Spec, revision int64) wire.Queue {
	spec.Deliver = secrets.Mask(spec.Deliver)
	return wire.Queue{Spec: spec, Revision: revision}
}

// shown is a queue as it is now.
func shown(i *queue.Info) wire.Queue {
	q := shownSpec(i.Spec, i.Revision)
	q.Flow = &wire.Flow{
		Status: statusOf(i), Paused: i.Pause.On(), Pause: pauseOf(i.Pause), Stop: stopOf(i.Stop),
		CircuitState: circuitOf(i), Adapted: adaptedOf(i), Stats: wire.Stats{
			Waiting: i.Waiting, Scheduled: i.Scheduled, Leased: i.Leased, HeldJobs: i.Held, Deferred: i.Deferred, Dead: i.Dead,
			Bytes: i.Bytes, MaxBytes: maxBytes(i), DeadBytes: i.DeadBytes, DeferredBytes: i.DeferredBytes,
			Lanes: i.Lanes, Children: i.Group.Children, Quotas: quotas(i),
			Counters:      i.Counters,
			OldestWaiting: instant(i.OldestWaiting), Outflow: i.Outflow, Next: instant(i.Next), Errors: i.Errors,
		},
	}
	if p := i.Parent; p != nil {
		q.Parent = &wire.Parent{Name: p.Spec.Name, Rate: p.Rate, Paused: p.Pause.On(), Quotas: quotas(p)}
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

// shownStatus is a status as of when the queue was read.
func shownStatus(s *status.Status, i *queue.Info) wire.Status {
	return wire.Status{
		Code: s.Code, Text: s.Text(i.Now.UTC()), Until: instant(s.Until), Queue: s.Queue, Reason: s.Reason, By: s.By,
		ClaimedBy: s.Note,
		Full:      s.Full,
		LastAsked: instant(i.Asked),
	}
}

// maxBytes is 0 if nothing bounds the queue in bytes.
func maxBytes(i *queue.Info) int64 {
	if i.MaxBytes == queue.AnyBytes {
		return 0
	}
	return i.MaxBytes
}

// adaptedOf is nil if the rate is the configured one.
func adaptedOf(i *queue.Info) *wire.Adapted {
	if !i.Spec.Adapt.On() {
		return nil
	}
	a := &wire.Adapted{Rate: i.Rate, PerSecond: i.Rate.PerSecond(), Changes: []queue.Adaption{}}
	for _, c := range i.Adaptions {
		c.At = c.At.UTC()
		a.Changes = append(a.Changes, c)
	}
	return a
}

// quotas is how much is used of each quota of a queue.
func quotas(i *queue.Info) []wire.Quota {
	var list []wire.Quota
	for k, l := range i.Spec.Limits {
		if l.Paced() || k >= len(i.Limits) {
			continue
		}
		calendar, err := l.Calendar(i.Now)
		if err != nil {
			continue // this machine does not know the zone; the queue goes on by what the store knows
		}
		w, now := i.Limits[k].Window, leaky.Instant(i.Now.UnixMicro())
		if now >= w.Ends {
			w = leaky.Window{Ends: calendar.End(now)}
		}
		list = append(list, wire.Quota{
			Quota: l.Quota, Timezone: l.Timezone, Used: w.Used, Left: max(0, l.Quota.Max-w.Used), Ends: w.Ends.Time().UTC(),
		})
	}
	return list
}

// pauseOf is a pause with its instants in UTC, nil if there is none.
func pauseOf(p queue.Pause) *queue.Pause {
	if !p.On() {
		return nil
	}
	p.Since, p.Until = p.Since.UTC(), p.Until.UTC()
	return &p
}

// stopOf is a stop with its instant in UTC, nil if there is none.
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

// instant is t in UTC, nil when there is none.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
