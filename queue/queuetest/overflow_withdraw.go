package queuetest

import (
	"slices"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

func ticketed(a queue.Appended, queueName string) queue.Ticketed {
	return queue.Ticketed{Queue: queueName, ID: a.ID, Ticket: a.Ticket}
}

// withdraws withdraws deferrals and checks the promises.
func (r *rig) withdraws(list []queue.Ticketed, want ...time.Duration) {
	r.Helper()
	got, err := r.e.Withdraw(r.ctx, list)
	if err != nil || !slices.Equal(got, want) {
		r.Fatalf("withdraw %+v: %v, %v; want %v", list, got, err, want)
	}
}

// withdrawsOne withdraws one deferral and ignores the promise.
func (r *rig) withdrawsOne(t queue.Ticketed) {
	r.Helper()
	if got, err := r.e.Withdraw(r.ctx, []queue.Ticketed{t}); err != nil || len(got) != 1 || got[0] <= 0 {
		r.Fatalf("withdraw %+v: %v, %v", t, got, err)
	}
}

var withdrawRules = []rule{
	{"a job that could not be stored is as if it had never been offered", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		a := s.full("a", "b")
		r.withdrawsOne(ticketed(a[0], s.q))
		r.unknown(s.q, "a")
		r.state(queue.Deferred, s.q, "b")
		r.tallies(s.q, tally{waiting: 2, deferred: 1, appended: 2, setAside: 1})
		other := job(s.q, "a")
		other.Payload = []byte("other")
		again := r.offered(queue.SetAside, other)
		if again.Position != 4 || again.Ticket == a[0].Ticket {
			r.Errorf("%+v, want it at 4 with a ticket other than %q", again, a[0].Ticket)
		}
	}},
	{"withdrawing the last deferral ends the backlog", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		a := s.empties("a")[0]
		r.offered(queue.SetAside, job(s.q, "b"))
		b := r.offer(job(s.q, "b"))[0]
		r.withdrawsOne(ticketed(b, s.q))
		r.withdrawsOne(ticketed(a, s.q))
		if n := s.admits("x"); n != 4 {
			r.Errorf("%d got in, want 4", n)
		}
		r.tallies(s.q, tally{waiting: 4, appended: 8, delivered: 4, refused: 1})
	}},
	{"the answer is the promise of a full queue, and moves the promise on", func(r *rig) {
		const ms = time.Millisecond
		s := r.overflowOf("g.q", "10/s", withCapacity(3))
		u := r.overflowOf("g.u", "unlimited", withCapacity(1))
		a, b := s.full("a", "b", "c", "d"), u.full("a")
		r.withdraws(
			[]queue.Ticketed{ticketed(a[0], s.q), ticketed(b[0], u.q), ticketed(a[1], s.q)}, 1*ms, 100*ms, 100*ms,
		)
		r.checkFull(s.q, "x", 200*ms)
		r.withdraws([]queue.Ticketed{ticketed(a[0], s.q)}, 300*ms) // in any case
		r.withdraws([]queue.Ticketed{{Queue: s.q, ID: "nobody", Ticket: a[2].Ticket}}, 400*ms)
		r.check(r.e.Pause(r.ctx, s.q, queue.Pause{}))
		r.withdraws([]queue.Ticketed{ticketed(a[2], s.q)}, 30*time.Second)
		r.withdraws(
			[]queue.Ticketed{{Queue: "nobody", ID: "a", Ticket: a[3].Ticket}, {Queue: "not a name"}, {}}, 0, 0, 0,
		)
		r.withdraws(nil)
		r.tallies(s.q, tally{waiting: 3, deferred: 1, appended: 3, setAside: 1, refused: 1})
		r.tallies(u.q, tally{waiting: 1, appended: 1})
	}},
	{"a withdrawal can be repeated", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		a := s.full("a", "b")
		for range 3 {
			r.withdrawsOne(ticketed(a[0], s.q))
		}
		both := []queue.Ticketed{ticketed(a[1], s.q), ticketed(a[1], s.q), ticketed(a[0], s.q)}
		r.withdraws(both, 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond)
		r.tallies(s.q, tally{waiting: 2, appended: 2})
	}},
	{"only the deferral of this very ticket is withdrawn", func(r *rig) {
		p, s := r.overflowOf("g.p", "unlimited", withCapacity(2)), r.overflowOf("g.q", "unlimited", withCapacity(2))
		other := p.full("a", "b")
		a := s.full("a", "b")
		stays := func(what string, t queue.Ticketed) {
			r.Helper()
			r.withdrawsOne(t)
			if i := r.info(s.q); i.Deferred != 2 || i.SetAside != 2 {
				r.Errorf("%s: %d deferred, %d set aside", what, i.Deferred, i.SetAside)
			}
		}
		stays("no ticket", queue.Ticketed{Queue: s.q, ID: "a"})
		stays("a neighbor's", queue.Ticketed{Queue: s.q, ID: "a", Ticket: a[1].Ticket})
		stays("another queue's", queue.Ticketed{Queue: s.q, ID: "a", Ticket: other[0].Ticket})
		stays("an invalid one", queue.Ticketed{Queue: s.q, ID: "a", Ticket: "x"})
		stays("one cut short", queue.Ticketed{Queue: s.q, ID: "a", Ticket: a[0].Ticket[:len(a[0].Ticket)-1]})
		stays("one with a leading zero", queue.Ticketed{Queue: s.q, ID: "a", Ticket: "0" + a[0].Ticket})
		stays("one with a tail", queue.Ticketed{Queue: s.q, ID: "a", Ticket: a[0].Ticket + "0"})

		r.withdrawsOne(ticketed(a[0], s.q))
		s.setAside("a")
		stays("the previous one", ticketed(a[0], s.q))
		r.state(queue.Deferred, s.q, "a")
	}},
	{"a job that is no longer deferred is left alone", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		a := s.empties("cancelled", "back", "delivered", "dead")
		r.cancels(queue.Cancelled, s.q, "cancelled")
		s.takes(readmit.Passed, readmit.Returned, readmit.Returned)
		r.deliver(r.grant(s.q, 2, "back", "delivered")[1])
		s.takes(readmit.Returned)
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(s.q, 1, "dead")[0]))
		want := tally{leased: 1, dead: 1, appended: 7, setAside: 4, returned: 3, cancelled: 1, delivered: 5, died: 1}
		r.tallies(s.q, want)
		for _, a := range a {
			r.withdrawsOne(ticketed(a, s.q))
		}
		r.tallies(s.q, want)
		for id, state := range map[string]queue.State{
			"cancelled": queue.Cancelled, "back": queue.Leased, "delivered": queue.Delivered, "dead": queue.Dead,
		} {
			r.state(state, s.q, id)
		}
	}},
	{"a cancelled deferral stays cancelled", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(1))
		a := s.full("a")
		r.cancels(queue.Cancelled, s.q, "a")
		r.withdrawsOne(ticketed(a[0], s.q))
		r.state(queue.Cancelled, s.q, "a")
		r.tallies(s.q, tally{waiting: 1, appended: 1, setAside: 1, cancelled: 1})
		s.takes(readmit.Passed) // it was stored after all
	}},
	{"a job withdrawn and stored after all comes back like any other", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		a := s.empties("a")
		r.withdrawsOne(ticketed(a[0], s.q))
		s.takes(readmit.Returned)
		r.beside[s.q]++
		r.tallies(s.q, tally{waiting: 1, appended: 3, returned: 1, delivered: 2})
		r.sameIDs(r.drain(s.q), "a")
	}},
	{"a ticket of a deleted queue is void once the queue is made again", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(1))
		a := s.full("a")
		r.delete(s.q)
		r.withdraws([]queue.Ticketed{ticketed(a[0], s.q)}, 0)
		s = r.overflowOf("q", "unlimited", withCapacity(1))
		s.full("a")
		r.withdrawsOne(ticketed(a[0], s.q))
		r.tallies(s.q, tally{waiting: 1, deferred: 1, appended: 1, setAside: 1})
	}},
}
