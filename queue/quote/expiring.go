package quote

import (
	"cmp"
	"math"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
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
// order. Its error is a *FieldError.
func (r Request) Expiring(i *queue.Info, b *Backlog) (now, then Expiring, err error) {
	out, err := newETAModel(i, 0, nil)
	if err != nil {
		return now, then, err
	}
	now = b.expiring(i, &out)
	if r.Rate == nil {
		return now, now, nil
	}
	if out, err = newETAModel(i, 0, r.Rate); err != nil {
		return now, then, err
	}
	return now, b.expiring(i, &out), nil
}

// expiring lets the backlog leave, on paper, and counts those that use no slot. Limits and the group
// hold as they do for an ETA.
func (b *Backlog) expiring(i *queue.Info, out *etaModel) Expiring {
	e := Expiring{AtLeast: b.more, Exact: b.exact(i)}
	if b.deadlines == 0 {
		e.Exact = !b.more
		return e
	}
	now := goes(i)
	own := out.own
	if own == nil {
		own = &paces{}
	}
	p, bucket := own.Pacer, own.bucket
	p.Horizon = math.MaxInt64 // whatever it takes
	gone, jobs := int64(0), int64(0)
	lanes := make([]leaky.Bucket, len(b.lanes))
	for _, w := range b.turns() {
		// A lane without a rate lets everything go, and its bucket stays empty.
		lane := i.Spec.Lanes.Of(b.lanes[w.lane]).Pacer()
		lane.Horizon = p.Horizon
		departs := max(
			p.Next(bucket, now), lane.Next(lanes[w.lane], now), own.limitsETA(now, gone),
			out.groupETA(now, gone, 0, jobs-i.Waiting),
		)
		if w.expires != 0 && w.expires < departs {
			e.Jobs++
			continue
		}
		p.Take(&bucket, now, w.cost) // if it cannot, those behind leave centuries from now as well
		lane.Take(&lanes[w.lane], now, w.cost)
		gone, jobs = gone+w.cost, jobs+1
	}
	return e
}

// turns are the jobs in about the order in which lanes that take turns let them go: by what
// their lane has used up once they have left.
func (b *Backlog) turns() []waiting {
	if len(b.lanes) == 1 {
		return b.jobs
	}
	type turn struct {
		waiting
		tag int64
	}
	turns := make([]turn, len(b.jobs))
	used := make([]int64, len(b.lanes))
	for i, w := range b.jobs {
		used[w.lane] += w.cost
		turns[i] = turn{w, used[w.lane]}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.tag, b.tag) })
	ordered := make([]waiting, len(turns))
	for i := range turns {
		ordered[i] = turns[i].waiting
	}
	return ordered
}

// exact is as that of an ETA, but that of a paused queue it is as if it were resumed now.
func (b *Backlog) exact(i *queue.Info) bool {
	alone := len(b.lanes) == 1 && !b.more && i.Parent == nil && i.Group.Children == 0 && len(i.Spec.Limits) == 0
	return alone && i.Scheduled == 0 && i.Leased == 0 && i.Spec.MaxInFlight == 0 && !i.Spec.Ordered && !i.Stop.On() &&
		!i.Circuit.Open()
}
