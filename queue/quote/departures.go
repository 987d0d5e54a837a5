package quote

import (
	"cmp"
	"iter"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// departures simulates the departures of the backlog. It yields each job with its departure. A job that expires first
// uses no slot.
func (b *Backlog) departures(out *machine.Rehearsal) iter.Seq2[waiting, departure] {
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

// departure is when a job departs, or would if it did not expire first.
type departure struct {
	at      leaky.Instant
	expired bool
}

// upcoming has the jobs still to leave.
type upcoming struct {
	ready     []placed // in order
	scheduled []placed // by due time
}

// placed is a job with its place in the order of all jobs.
type placed struct {
	waiting
	place int
}

// upcoming sorts the jobs approximately as lanes taking turns let them go: by how much their lane has used up once
// they have left. A scheduled job gets the place it would have if it were due, but does not delay the jobs behind
// it.
func (b *Backlog) upcoming() upcoming {
	tags, used := make([]int64, len(b.jobs)), make([]int64, len(b.lanes))
	jobs := make([]placed, len(b.jobs))
	for n, w := range b.jobs {
		tags[n] = used[w.lane] + w.cost
		if w.due == 0 {
			used[w.lane] = tags[n]
		}
		jobs[n].waiting = w
	}
	if len(b.lanes) > 1 {
		slices.SortStableFunc(jobs, func(a, b placed) int { return cmp.Compare(tags[a.n], tags[b.n]) })
	}
	u := upcoming{ready: make([]placed, 0, len(jobs))}
	for n, j := range jobs {
		j.place = n
		if j.due == 0 {
			u.ready = append(u.ready, j)
		} else {
			u.scheduled = append(u.scheduled, j)
		}
	}
	slices.SortStableFunc(u.scheduled, func(a, b placed) int { return cmp.Compare(a.due, b.due) })
	return u
}

func (u *upcoming) empty() bool { return len(u.ready)+len(u.scheduled) == 0 }

// next removes and returns the job that gets the next slot. Slots are granted up to the horizon ahead, so a job that
// becomes due later gets the slot only if no other job waits.
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
