package quote

import (
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// Expiring is how many waiting jobs would expire before they leave.
type Expiring struct {
	Jobs int64
	// Exact is whether only the pace of the queue decides the number.
	Exact bool
	// AtLeast is whether some waiting jobs were not looked at.
	AtLeast bool
}

// Expiring returns how much of a backlog would expire at the present rate, and at r.Rate if that is set. As in a
// Quote, no other jobs are appended and a paused queue resumes now. The order of lanes is approximate. Its error
// is an *invalid.Error.
func (r Request) Expiring(i *queue.Info, b *Backlog) (now, then Expiring, err error) {
	out, err := machine.NewRehearsal(i, nil)
	if err != nil {
		return now, then, err
	}
	now = b.expiring(i, out)
	if r.Rate == nil {
		return now, now, nil
	}
	if out, err = machine.NewRehearsal(i, r.Rate); err != nil {
		return now, then, err
	}
	return now, b.expiring(i, out), nil
}

// expiring simulates the departures of the backlog and counts the jobs that expire. Limits and the group apply as they
// do to an ETA.
func (b *Backlog) expiring(i *queue.Info, out *machine.Rehearsal) Expiring {
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

// exact reports whether an ETA would be exact if a paused queue resumed now.
func (b *Backlog) exact(i *queue.Info) bool {
	alone := len(b.lanes) == 1 && !b.more && i.Parent == nil && i.Group.Children == 0 && len(i.Spec.Limits) == 0
	return alone && i.Scheduled == 0 && i.Leased == 0 && i.Spec.MaxInFlight == 0 && !i.Spec.Ordered && !i.Stop.On() &&
		!i.Circuit.Open()
}
