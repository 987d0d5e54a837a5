package quote

import (
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// Expiring is how many of the jobs that wait would expire before they leave.
type Expiring struct {
	Jobs int64
	// Exact: nothing but the pace of the queue decides it.
	Exact bool
	// AtLeast: not all that wait were looked at.
	AtLeast bool
}

// Expiring answers for a backlog how many of it would expire at the present rate, and at the
// other, which is as at the present one if none is asked about. As in a Quote nobody else
// appends, and a paused queue is resumed now. Jobs of several lanes leave in about their
// order. Its error is an *invalid.Error.
func (r Request) Expiring(i *queue.Info, b *Backlog) (now, then Expiring, err error) {
	out, err := machine.NewForecast(i, 0, nil)
	if err != nil {
		return now, then, err
	}
	now = b.expiring(i, out)
	if r.Rate == nil {
		return now, now, nil
	}
	if out, err = machine.NewForecast(i, 0, r.Rate); err != nil {
		return now, then, err
	}
	return now, b.expiring(i, out), nil
}

// expiring lets the backlog leave, on paper, and counts those that use no slot. Limits and the group
// hold as they do for an ETA.
func (b *Backlog) expiring(i *queue.Info, out *machine.Forecast) Expiring {
	e := Expiring{AtLeast: b.more, Exact: b.exact(i)}
	if b.deadlines == 0 {
		e.Exact = !b.more
		return e
	}
	for _, departs := range b.departures(out) {
		if departs.expired {
			e.Jobs++
		}
	}
	return e
}

// exact is as that of an ETA, but that of a paused queue it is as if it were resumed now.
func (b *Backlog) exact(i *queue.Info) bool {
	alone := len(b.lanes) == 1 && !b.more && i.Parent == nil && i.Group.Children == 0 && len(i.Spec.Limits) == 0
	return alone && i.Scheduled == 0 && i.Leased == 0 && i.Spec.MaxInFlight == 0 && !i.Spec.Ordered && !i.Stop.On() &&
		!i.Circuit.Open()
}
