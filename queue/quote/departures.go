package quote

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// departures lets the backlog leave, on paper, and yields each job with when it would depart. One that expires before
// uses no slot. Limits and the group hold as they do for an ETA.
func (b *Backlog) departures(i *queue.Info, out *etaModel) iter.Seq2[waiting, leaky.Instant] {
	return func(yield func(waiting, leaky.Instant) bool) {
		now := goes(i)
		own := out.own
		if own == nil {
			own = &paces{}
		}
		p, bucket := own.Pacer, own.bucket
		p.Horizon = math.MaxInt64 // whatever it takes
		gone, jobs := int64(0), int64(0)
		lanes := make([]leaky.Bucket, len(b.lanes))
		order := b.upcoming()
		for !order.empty() {
			w := order.next(now, p.Next(bucket, now))
			goes := max(now, w.due)
			// A lane without a rate lets everything go, and its bucket stays empty.
			lane := i.Spec.Lanes.Of(b.lanes[w.lane]).Pacer()
			lane.Horizon = p.Horizon
			departs := max(
				p.Next(bucket, goes), lane.Next(lanes[w.lane], goes), own.limitsETA(now, gone),
				out.groupETA(now, gone, 0, jobs-i.Waiting),
			)
			if !yield(w, departs) {
				return
			}
			if w.expiresBefore(departs) {
				continue
			}
			p.Take(&bucket, goes, w.cost) // if it cannot, those behind leave centuries from now as well
			lane.Take(&lanes[w.lane], goes, w.cost)
			gone, jobs = gone+w.cost, jobs+1
		}
	}
}

func (w *waiting) expiresBefore(at leaky.Instant) bool { return w.expires != 0 && w.expires < at }

// upcoming is the jobs that are still to leave.
type upcoming struct {
	ready     []turn // in order
	scheduled []turn // by when they are due
}

// turn is a job with its place in the order of all.
type turn struct {
	waiting
	place int
}

// upcoming puts the jobs in about the order in which lanes that take turns let them go: by what their lane has used up
// once they have left. A scheduled one stands where it would if it were due, and uses nothing up for those behind it.
func (b *Backlog) upcoming() upcoming {
	tags, used := make([]int64, len(b.jobs)), make([]int64, len(b.lanes))
	turns := make([]turn, len(b.jobs))
	for n, w := range b.jobs {
		tags[n] = used[w.lane] + w.cost
		if w.due == 0 {
			used[w.lane] = tags[n]
		}
		turns[n].waiting = w
	}
	if len(b.lanes) > 1 {
		slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(tags[a.n], tags[b.n]) })
	}
	u := upcoming{ready: make([]turn, 0, len(turns))}
	for n, t := range turns {
		t.place = n
		if t.due == 0 {
			u.ready = append(u.ready, t)
		} else {
			u.scheduled = append(u.scheduled, t)
		}
	}
	slices.SortStableFunc(u.scheduled, func(a, b turn) int { return cmp.Compare(a.due, b.due) })
	return u
}

func (u *upcoming) empty() bool { return len(u.ready)+len(u.scheduled) == 0 }

// next takes out the job that gets the next slot. That is granted up to the horizon ahead, so a job that becomes due
// after that gets it only if nobody else waits.
func (u *upcoming) next(now, slot leaky.Instant) waiting {
	by := max(now, slot.Add(-queue.Horizon))
	if len(u.ready) == 0 {
		by = max(by, u.scheduled[0].due)
	}
	best := -1
	for n := range u.scheduled {
		if u.scheduled[n].due > by {
			break
		}
		if best < 0 || u.scheduled[n].place < u.scheduled[best].place {
			best = n
		}
	}
	if best < 0 || len(u.ready) > 0 && u.ready[0].place < u.scheduled[best].place {
		w := u.ready[0].waiting
		u.ready = u.ready[1:]
		return w
	}
	w := u.scheduled[best].waiting
	u.scheduled = slices.Delete(u.scheduled, best, best+1)
	return w
}
