package quote

import (
	"cmp"
	"iter"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// departures lets the backlog leave, on paper, and yields each job with when it would depart, and whether it expires
// before: then it uses no slot.
func (b *Backlog) departures(out *machine.Forecast) iter.Seq2[waiting, departure] {
	return func(yield func(waiting, departure) bool) {
		order := b.upcoming()
		for !order.empty() {
			w := order.next(out.Goes(), out.Slot())
			at, expired := out.Depart(b.lanes[w.lane], w.due, w.expires, w.cost)
			if !yield(w, departure{at, expired}) {
				return
			}
		}
	}
}

// departure is when a job departs, or would if it did not expire before.
type departure struct {
	at      leaky.Instant
	expired bool
}

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
