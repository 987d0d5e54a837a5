package queuetest

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
)

// hold holds jobs, which may have been sent.
func (r *rig) hold(reason string, list ...queue.Reservation) {
	r.Helper()
	for _, v := range list {
		s := settlement(queue.Hold, v)
		s.Reason = reason
		r.settled(queue.Held, s)
	}
}

// decides decides about jobs of a queue and checks where each is then.
func (r *rig) decides(queueName string, ids string, v queue.Verdict, reason string, want ...queue.State) {
	r.Helper()
	got, err := r.e.Decide(r.ctx, queueName, strings.Fields(ids), v, reason)
	if err != nil || !slices.Equal(got, want) {
		r.Fatalf("decide %v of %s of %s: %v, %v; want %v", v, ids, queueName, got, err, want)
	}
}

func (r *rig) held(queueName, want string) {
	r.Helper()
	r.lists(queue.ListRequest{Queue: queueName, State: queue.Held}, want)
}

func onUnknown(s string) func(*queue.Spec) { return func(p *queue.Spec) { p.OnUnknown = s } }

func patience(d time.Duration) func(*queue.Spec) {
	return func(s *queue.Spec) { s.Retry.Deadline = queue.Duration(d) }
}

// mayHaveBeenSent is the reason of a job whose lease ran out in a queue that does not just try again.
const mayHaveBeenSent = "the lease ran out; it may have been sent"

var heldRules = []rule{
	{"a held job waits for a person, in its place", func(r *rig) {
		q := r.queue("q", "unlimited", small(3), leased(time.Minute, 2))
		t0 := r.clock.Now()
		r.accept(q, "a", "b", "c")
		v := r.grant(q, 1, "a")
		r.clock.Advance(time.Second)
		r.hold("the connection was lost", v...)
		at := r.clock.Now()
		r.clock.Advance(time.Hour)
		r.tallies(q, tally{waiting: 2, held: 1, appended: 3})
		if i := r.info(q); i.Size() != 3 || len(i.Errors) != 1 || i.Errors[0].Reason != "the connection was lost" || i.Errors[0].ID != "a" || !i.Errors[0].At.Equal(at.Time()) {
			r.Errorf("%d held in all, errors %+v", i.Size(), i.Errors)
		}
		j := r.job(q, "a")
		if j.State != queue.Held || j.Attempts != 1 || j.Reason != "the connection was lost" || instant(j.HeldAt) != at || j.Position != 0 || !j.ETA.At.IsZero() || !j.DueAt.IsZero() ||
			!j.EndedAt.IsZero() || instant(j.AppendedAt) != t0 {
			r.Errorf("got %+v", j)
		}
		r.timeline(t0.Time(), q, "a", told{0, 1, "client@bench", queue.AttemptUnknown, "the connection was lost"})
		r.waitsFor(queue.Why{By: queue.ByHeld, Reason: "the connection was lost"}, q, "a")
		r.held(q, "a")
		l := r.page(queue.ListRequest{Queue: q, State: queue.Held, Limit: 9})
		if got, want := l.Jobs[0], r.asListed(q, "a"); timelineText(got.Timeline) != "" || got.HeldAt != want.HeldAt || got.Attempts != 1 || got.Reason != want.Reason || !got.DueAt.IsZero() {
			r.Errorf("listed %+v", got)
		}
		r.outcome(queue.Full, job(q, "d"))
		r.duplicate(job(q, "a"), queue.Held, 0)
		r.outcome(queue.Conflict, in("lane", q, "a"))
		r.audit()
		r.sameIDs(r.reserve(q, 9), "b", "c")
		r.decides(q, "a", queue.Deliver, "", queue.Delivered)
	}},
	{"released it waits at its turn, and what was spent stays spent", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 2))
		r.accept(q, "a", "b", "c")
		t0 := r.clock.Now()
		s := settlement(queue.Hold, r.grant(q, 1, "a")[0])
		s.Reason = "lost"
		r.settled(queue.Held, s)
		r.decides(q, "a", queue.Release, "whatever", queue.Waiting)
		if j := r.job(q, "a"); j.State != queue.Waiting || j.Position != 1 || j.Attempts != 1 || j.Reason != "lost" || !j.HeldAt.IsZero() {
			r.Errorf("got %+v", j)
		}
		r.timeline(t0.Time(), q, "a", told{0, 0, "client@bench", queue.AttemptUnknown, "lost"})
		r.settled(queue.Held, s) // said again
		r.tallies(q, tally{waiting: 3, appended: 3})
		v := r.grant(q, 9, "a", "b", "c")
		if v[0].Attempt != 2 {
			r.Errorf("attempt %d", v[0].Attempt)
		}
		r.settled(queue.Held, s) // of an attempt that is over
		r.state(queue.Leased, q, "a")
		r.settled(queue.Dead, settlement(queue.Fail, v[0])) // the last one
		r.deliver(v[1:]...)
	}},
	{"the last attempt is held too", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 1))
		r.accept(q, "a")
		r.hold("", r.grant(q, 9, "a")...)
		r.decides(q, "a", queue.Release, "", queue.Waiting)
		r.hold("", r.grant(q, 9, "a")...)
		if j := r.job(q, "a"); j.Attempts != 2 {
			r.Errorf("got %+v", j)
		}
		r.decides(q, "a", queue.Release, "", queue.Waiting)
		r.settled(queue.Dead, settlement(queue.Fail, r.grant(q, 9, "a")[0]))
	}},
	{"marked delivered it has ended", func(r *rig) {
		q := r.queue("q", "unlimited", small(1), leased(time.Minute, 9))
		r.accept(q, "a")
		r.fail(0, r.grant(q, 1, "a")...)
		s := settlement(queue.Hold, r.grant(q, 1, "a")[0])
		s.Reason = "lost"
		r.settled(queue.Held, s)
		r.clock.Advance(time.Hour)
		for range 2 {
			r.decides(q, "a", queue.Deliver, "the provider says so", queue.Delivered)
			r.decides(q, "a", queue.Bury, "no", queue.Delivered)
			r.decides(q, "a", queue.Release, "", queue.Delivered)
		}
		if j := r.job(q, "a"); j.State != queue.Delivered || j.Attempts != 2 || j.Reason != "the provider says so" || instant(j.EndedAt) != r.clock.Now() || len(j.Timeline) != 0 {
			r.Errorf("got %+v", j)
		}
		r.settled(queue.Held, s)
		r.tallies(q, tally{appended: 1, delivered: 1, retried: 1})
		r.duplicate(job(q, "a"), queue.Delivered, 0)
		r.accept(q, "b") // there is room again
		r.held(q, "")
		r.hold("why", r.grant(q, 1, "b")...)
		r.decides(q, "b", queue.Deliver, "", queue.Delivered)
		if j := r.job(q, "b"); j.Reason != "why" {
			r.Errorf("got %+v", j)
		}
	}},
	{"marked dead it is, and can be replayed", func(r *rig) {
		q := r.queue("q", "unlimited", small(2))
		t0 := r.clock.Now().Time()
		r.accept(q, "a", "b")
		v := r.grant(q, 9, "a", "b")
		r.hold("lost", v...)
		r.clock.Advance(time.Second)
		r.decides(q, "a", queue.Bury, "", queue.Dead)
		r.clock.Advance(time.Second)
		r.decides(q, "b", queue.Bury, "nobody wants it", queue.Dead)
		r.dead(q, "a b")
		for id, want := range map[string]string{"a": "lost", "b": "nobody wants it"} {
			if j := r.job(q, id); j.State != queue.Dead || j.Attempts != 1 || j.Reason != want {
				r.Errorf("got %+v", j)
			}
			r.timeline(t0, q, id, told{0, 0, "client@bench", queue.AttemptUnknown, "lost"})
		}
		r.tallies(q, tally{appended: 2, died: 2, dead: 2})
		if n := len(r.info(q).Errors); n != 2 { // those that drainers reported
			r.Errorf("%d errors", n)
		}
		s := settlement(queue.Hold, v[0])
		r.settled(queue.Held, s)
		r.replays(q, []string{"a"}, queue.Replayed)
		r.stale(s)
		r.deliver(r.grant(q, 9, "a")...)
		r.forgets(q, []string{"b"}, true)
	}},
	{"only held jobs are decided about", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9))
		r.accept(q, "delivered", "dead", "scheduled", "leased", "held", "cancelled", "waiting")
		v := r.grant(q, 5, "delivered", "dead", "scheduled", "leased", "held")
		r.deliver(v[0])
		r.settled(queue.Dead, settlement(queue.Bury, v[1]))
		r.fail(time.Hour, v[2])
		r.hold("", v[4])
		r.cancels(queue.Cancelled, q, "cancelled")
		before := r.info(q)
		for _, verdict := range []queue.Verdict{queue.Release, queue.Bury, queue.Deliver} {
			r.decides(q, "delivered dead scheduled leased cancelled waiting nobody", verdict, "x",
				queue.Delivered, queue.Dead, queue.Scheduled, queue.Leased, queue.Cancelled, queue.Waiting, queue.StateNone)
		}
		if after := r.info(q); !sameCounts(before, after) || after.Held != 1 {
			r.Errorf("before %+v\nafter %+v", before, after)
		}
		r.decides(q, "held waiting held", queue.Bury, "", queue.Dead, queue.Waiting, queue.Dead)
		r.decides(q, "", queue.Bury, "")
		r.settled(queue.Delivered, settlement(queue.Deliver, v[3]))
	}},
	{"a deferred job, and one that died in a former queue, are what they are", func(r *rig) {
		s := r.shelf("q", "unlimited", small(1))
		s.full("d")
		r.decides(s.q, "d", queue.Deliver, "", queue.Deferred)
		r.cancels(queue.Cancelled, s.q, "d")
		r.decides(s.q, "d", queue.Deliver, "", queue.Cancelled)
		r.deliver(r.reserve(s.q, 9)...)
		q := r.queue("other", "unlimited")
		r.buried("", job(q, "a"))
		r.delete(q)
		_, err := r.e.Decide(r.ctx, q, []string{"a"}, queue.Deliver, "")
		r.refuses(err, queue.ErrUnknownQueue)
		r.queue(q, "unlimited")
		r.decides(q, "a", queue.Deliver, "", queue.Dead)
	}},
	{"what cannot be decided is refused", func(r *rig) {
		q := r.queue("q", "unlimited")
		decide := func(ids []string, v queue.Verdict, reason string) error {
			_, err := r.e.Decide(r.ctx, q, ids, v, reason)
			return err
		}
		r.notAField(decide([]string{"a b"}, queue.Deliver, ""), "ids[0]")
		r.notAField(decide(numbered("j", queue.MaxPage+1), queue.Deliver, ""), "ids")
		r.check(decide(numbered("j", queue.MaxPage), queue.Deliver, strings.Repeat("x", queue.MaxReasonBytes)))
		r.notAField(decide([]string{"a"}, queue.Deliver, strings.Repeat("x", queue.MaxReasonBytes+1)), "reason")
		for _, v := range []queue.Verdict{0, queue.Fail, queue.Hold, queue.Throttle, queue.Down, 99} {
			r.notAField(decide([]string{"a"}, v, ""), "verdict")
		}
		for _, name := range []string{"nobody", "", "a b"} {
			_, err := r.e.Decide(r.ctx, name, []string{"a"}, queue.Deliver, "")
			r.refuses(err, queue.ErrUnknownQueue)
		}
	}},
	{"it is not cancelled, purged, replayed or forgotten, and does not expire", func(r *rig) {
		q := r.queue("q", "unlimited")
		j := job(q, "a")
		j.ExpiresAt = r.clock.Now().Add(time.Minute).Time()
		r.acceptJobs(j)
		r.hold("lost", r.grant(q, 9, "a")...)
		r.clock.Advance(time.Hour)
		r.cancels(queue.Held, q, "a")
		r.purges(queue.PurgeRequest{Queue: q, State: queue.Waiting}, 9, 0, nil)
		r.purges(queue.PurgeRequest{Queue: q, State: queue.Scheduled}, 9, 0, nil)
		r.replays(q, []string{"a"}, queue.NotDead)
		r.forgets(q, []string{"a"}, false)
		r.grant(q, 9)
		r.state(queue.Held, q, "a")
		_, err := r.e.Purge(r.ctx, queue.PurgeRequest{Queue: q, State: queue.Held, Limit: 9})
		r.notAField(err, "state")
		r.decides(q, "a", queue.Release, "", queue.Waiting)
		r.grant(q, 9)
		r.state(queue.Expired, q, "a") // when its turn comes
	}},
	{"a queue that holds some is not deleted without force", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b")
		r.hold("", r.grant(q, 9, "a", "b")...)
		r.refuses(r.e.Delete(r.ctx, q, queue.AnyRevision, false), queue.ErrNotEmpty)
		r.delete(q)
		r.audit()
		r.sweeps(q)
		r.queue(q, "unlimited")
		r.unknown(q, "a")
		r.accept(q, "a", "b")
		r.deliver(r.grant(q, 9, "a", "b")...)
	}},
	{"they are listed by since when they are held, ties by id", func(r *rig) {
		q, other := r.queue("g.q", "unlimited"), r.queue("g.other", "unlimited")
		r.accept(other, "x")
		r.hold("", r.grant(other, 9, "x")...)
		r.acceptJobs(in("x", q, "c"), in("y", q, "a"), job(q, "d"), urgent(7, "", q, "b"))
		v := r.reserve(q, 9)
		slices.SortFunc(v, func(a, b queue.Reservation) int { return strings.Compare(a.ID, b.ID) })
		r.hold("", v[2], v[0])
		r.clock.Advance(time.Second)
		r.hold("", v[3], v[1])
		r.held(q, "a c b d")
		for _, j := range r.pages(queue.ListRequest{Queue: q, State: queue.Held}, 4, nil) {
			if want := map[string]string{"a": "y", "c": "x"}[j.ID]; j.Lane != want || j.ID == "b" != (j.Priority == 7) {
				r.Errorf("got %+v", j)
			}
		}
		req := queue.ListRequest{Queue: q, State: queue.Held}
		seen := r.pages(req, 1, func(page []queue.JobInfo) { // one that leaves hides no other
			r.decides(q, page[0].ID, queue.Deliver, "", queue.Delivered)
		})
		if got := namesOf(seen); got != "a c b d" {
			r.Errorf("seen %s", got)
		}
		req.Lane, req.Limit = new(string), 9
		_, err := r.e.ListJobs(r.ctx, req)
		r.notAField(err, "lane")
	}},
	{"it is in no lane's way", func(r *rig) {
		for _, change := range []func(*queue.Spec){ordered, each(queue.LaneRule{MaxInFlight: 1}), flying(1)} {
			q := r.queue("q", "unlimited", change, leased(time.Minute, 9))
			r.acceptJobs(inLane("x", q, "a", "b")...)
			r.hold("", r.grant(q, 9, "a")...)
			v := r.grant(q, 9, "b")
			r.decides(q, "a", queue.Release, "", queue.Waiting)
			r.grant(q, 9)
			r.deliver(v...)
			r.deliver(r.grant(q, 9, "a")...)
			r.delete(q)
		}
	}},
	{"an ordered queue without lanes goes on", func(r *rig) {
		q := r.queue("q", "unlimited", ordered)
		r.accept(q, "a", "b", "c")
		r.hold("", r.grant(q, 9, "a")...)
		r.deliver(r.grant(q, 9, "b")...)
		r.decides(q, "a", queue.Release, "", queue.Waiting)
		r.deliver(r.grant(q, 9, "a")...)
		r.deliver(r.grant(q, 9, "c")...)
	}},
	{"the lane's capacity counts it", func(r *rig) {
		q := r.queue("q", "unlimited", each(holding(1)))
		r.acceptJobs(in("x", q, "a"))
		r.hold("", r.grant(q, 9, "a")...)
		r.outcome(queue.LaneFull, in("x", q, "b"))
		if _, l := r.lane(q, "x"); l.Held != 1 || l.Waiting != 0 {
			r.Errorf("the lane: %+v", l)
		}
		r.lanes(q, 0)
		r.decides(q, "a", queue.Bury, "", queue.Dead)
		r.acceptJobs(in("x", q, "b"))
		r.deliver(r.grant(q, 9, "b")...)
	}},
	{"nothing is exact while one may come back", func(r *rig) {
		q := r.queue("q", "1/s")
		r.accept(q, "a")
		r.hold("", r.grant(q, 1, "a")...)
		if a := r.accept(q, "b")[0]; a.ETA.Exact {
			r.Errorf("got %+v", a)
		}
		r.decides(q, "a", queue.Deliver, "", queue.Delivered)
		if a := r.accept(q, "c")[0]; !a.ETA.Exact {
			r.Errorf("got %+v", a)
		}
	}},
	{"its slot was used", func(r *rig) {
		q := r.queue("q", "1/s")
		r.accept(q, "a", "b")
		t0 := r.clock.Now()
		r.hold("", r.grant(q, 1, "a")...)
		r.decides(q, "a", queue.Release, "", queue.Waiting)
		r.drain(q)
		if took := r.clock.Now().Sub(t0); took < 2*time.Second-queue.Horizon {
			r.Errorf("three departures within %v", took)
		}
	}},
	{"one that was released wakes the watcher", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 900))
		r.accept(q, "a")
		r.awaitWake(q, "w", func(int) {
			r.hold("", r.watching("w", q)...)
			r.decides(q, "a", queue.Release, "", queue.Waiting)
		})
	}},
	{"a pull queue's jobs are held like others", func(r *rig) {
		q := r.queue("q", "unlimited", pulled, onUnknown(queue.UnknownHold), leased(time.Second, 9))
		r.accept(q, "a", "b")
		v := r.pull("p", q, 1, "a").Jobs
		r.hold("lost", v...)
		r.pull("p", q, 9, "b")
		r.clock.Advance(time.Minute)
		r.pull("p", q, 9)
		r.held(q, "a b")
		r.decides(q, "a b", queue.Release, "", queue.Waiting, queue.Waiting)
		r.deliver(r.pull("p", q, 9, "a", "b").Jobs...)
	}},
	{"what came back from the overflow keeps the place of that", func(r *rig) {
		s := r.shelf("q", "unlimited", small(2), lowWater(0.5))
		s.full("x", "y")
		for _, v := range r.reserve(s.q, 9) {
			r.deliver(v)
		}
		s.takes(queue.Returned)
		r.hold("", r.reserve(s.q, 9)...)
		if i := r.info(s.q); i.Held != 1 || i.Back != 1 {
			r.Errorf("got %+v", i)
		}
		s.takes(queue.NotYet)
		r.decides(s.q, "x", queue.Deliver, "", queue.Delivered)
		if i := r.info(s.q); i.Back != 0 {
			r.Errorf("got %+v", i)
		}
		s.takes(queue.Returned)
		r.drain(s.q)
	}},
	{"a held job is moved as one", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9))
		urgent := urgent(3, "x", q, "b")
		r.acceptJobs(job(q, "a"), urgent, in("x", q, "c"))
		v := r.reserve(q, 2)
		r.hold("lost", v[0])
		r.clock.Advance(time.Second)
		r.hold("lost too", v[1])
		r.clock.Advance(time.Minute)
		m := r.export(q)
		want := namesOf(r.pages(queue.ListRequest{Queue: q, State: queue.Held}, 9, nil))
		r.move(m)
		r.sameExport(r.export(q), m)
		r.held(q, want)
		r.tallies(q, tally{waiting: 1, held: 2, appended: 3})
		r.decides(q, "a b", queue.Release, "", queue.Waiting, queue.Waiting)
		got := ids(r.drain(q))
		if slices.Sort(got); !slices.Equal(got, []string{"a", "b", "c"}) {
			r.Errorf("departed %v", got)
		}
	}},
	{"many hands that decide end each job once", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 900))
		all := numbered("j", 60)
		r.accept(q, all...)
		r.hold("", r.grant(q, 100, all...)...)
		r.crowd(6, func(w int) (n int) {
			for i := range 12 {
				some := all[(5*i+7*w)%56:][:5]
				if _, err := r.e.Decide(r.ctx, q, some, []queue.Verdict{queue.Deliver, queue.Bury, queue.Release}[w%3], ""); err != nil {
					r.Error(err)
				}
			}
			return n
		})
		if i := r.info(q); i.Held+i.Waiting+i.Delivered+i.Died != int64(len(all)) {
			r.Errorf("counted %+v", i)
		}
		r.drainHeld(q)
	}},
}

// drainHeld lets all held jobs go, and drains the queue.
func (r *rig) drainHeld(queueName string) {
	r.Helper()
	list := r.pages(queue.ListRequest{Queue: queueName, State: queue.Held}, queue.MaxPage, nil)
	_, err := r.e.Decide(r.ctx, queueName, strings.Fields(namesOf(list)), queue.Release, "")
	r.check(err)
	r.drain(queueName)
}

var unknownRules = []rule{
	{"a job whose lease ran out is held", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 1), onUnknown(queue.UnknownHold))
		r.accept(q, "a", "b")
		t0 := r.clock.Now()
		v := r.grant(q, 1, "a")
		r.clock.Advance(time.Minute)
		if res := r.reserveAs("other", q, 1); !slices.Equal(res.Expired, []string{q}) || len(res.Jobs) != 1 || res.Jobs[0].ID != "b" {
			r.Errorf("got %+v", res)
		}
		if j := r.job(q, "a"); j.State != queue.Held || j.Attempts != 1 || j.Reason != mayHaveBeenSent || instant(j.HeldAt) != r.clock.Now() {
			r.Errorf("got %+v", j)
		}
		r.timeline(t0.Time(), q, "a", told{0, 60, "client@bench", queue.AttemptUnknown, ""})
		if i := r.info(q); i.Expired != 1 || i.Held != 1 || i.Leased != 1 || len(i.Errors) != 1 || i.Errors[0].Reason != mayHaveBeenSent {
			r.Errorf("got %+v", i)
		}
		r.stale(settlement(queue.Deliver, v[0]))
		r.stale(settlement(queue.Hold, v[0]))
		r.extend(v[0], 0)
		r.decides(q, "a", queue.Deliver, "", queue.Delivered)
		r.stale(settlement(queue.Deliver, v[0]))
	}},
	{"or dead", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), onUnknown(queue.UnknownDead))
		r.accept(q, "a")
		t0 := r.clock.Now()
		r.grant(q, 1, "a")
		r.clock.Advance(time.Minute)
		r.grant(q, 1)
		if j := r.job(q, "a"); j.State != queue.Dead || j.Attempts != 1 || j.Reason != mayHaveBeenSent {
			r.Errorf("got %+v", j)
		}
		r.timeline(t0.Time(), q, "a", told{0, 60, "client@bench", queue.AttemptDied, ""})
		r.tallies(q, tally{appended: 1, died: 1, dead: 1, ran: 1})
	}},
	{"or waits again, when it may be sent twice", func(r *rig) {
		for _, s := range []string{"", queue.UnknownRetry} {
			q := r.queue("q", "unlimited", leased(time.Minute, 2), onUnknown(s))
			r.accept(q, "a")
			r.grant(q, 1, "a")
			r.clock.Advance(time.Minute)
			r.grant(q, 1, "a")
			r.clock.Advance(time.Minute)
			r.grant(q, 1)
			r.state(queue.Dead, q, "a")
			r.erase(q)
		}
	}},
	{"what counts is the spec when the lease is taken back", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9))
		r.accept(q, "a", "b")
		r.grant(q, 1, "a")
		r.queue(q, "unlimited", leased(time.Minute, 9), onUnknown(queue.UnknownHold))
		r.clock.Advance(time.Minute)
		r.grant(q, 1, "b")
		r.state(queue.Held, q, "a")
		r.queue(q, "unlimited", leased(time.Minute, 9), onUnknown(queue.UnknownRetry))
		r.clock.Advance(time.Minute)
		r.deliver(r.grant(q, 9, "b")...)
		r.state(queue.Held, q, "a")
		r.drainHeld(q)
	}},
	{"a settlement says for itself", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), onUnknown(queue.UnknownHold))
		r.accept(q, "a", "b", "c", "d")
		v := r.grant(q, 9, "a", "b", "c", "d")
		r.release(v[0])
		r.fail(time.Hour, v[1])
		r.settled(queue.Dead, settlement(queue.Bury, v[2]))
		r.deliver(v[3])
		r.release(v[0]) // said again
		r.clock.Advance(time.Hour)
		r.deliver(r.grant(q, 9, "a", "b")...)
		r.tallies(q, tally{appended: 4, delivered: 3, died: 1, dead: 1, retried: 1})
	}},
	{"an extended lease is not taken back", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), onUnknown(queue.UnknownHold))
		r.accept(q, "a")
		v := r.grant(q, 9, "a")
		r.clock.Advance(50 * time.Second)
		r.extend(v[0], time.Minute)
		r.clock.Advance(50 * time.Second)
		r.grant(q, 9)
		r.deliver(v...)
	}},
	{"a lane, and a queue, go on when one is held", func(r *rig) {
		for _, change := range []func(*queue.Spec){ordered, each(queue.LaneRule{MaxInFlight: 1}), flying(1)} {
			q := r.queue("q", "unlimited", change, leased(time.Second, 9), onUnknown(queue.UnknownHold))
			r.acceptJobs(inLane("x", q, "a", "b")...)
			r.grant(q, 9, "a")
			r.clock.Advance(time.Second)
			r.deliver(r.grant(q, 9, "b")...)
			r.decides(q, "a", queue.Deliver, "", queue.Delivered)
			r.delete(q)
		}
	}},
	{"an export finds leases as a restart does", func(r *rig) {
		for on, want := range map[string]queue.State{queue.UnknownHold: queue.Held, queue.UnknownDead: queue.Dead, queue.UnknownRetry: queue.Waiting} {
			q := r.queue("q", "unlimited", leased(10*time.Second, 9), onUnknown(on))
			r.accept(q, "a", "b")
			r.grant(q, 1, "a")
			r.clock.Advance(9 * time.Second)
			r.grant(q, 1, "b")
			r.clock.Advance(time.Second)
			for i, j := range r.exportState(q, queue.Leased) {
				lease := []queue.ExportedLease{queue.LeaseOver, queue.LeaseHeld}[i]
				spent, reason := 1, mayHaveBeenSent
				switch {
				case want != queue.Waiting:
				case i == 0:
					reason = "the lease ran out"
				default:
					spent, reason = 0, ""
				}
				if j.State != want || j.Lease != lease || j.Attempts != spent || j.Reason != reason || (want != queue.Waiting) == j.At.IsZero() {
					r.Errorf("%s, %s: exported %+v", on, j.ID, j)
				}
			}
			r.delete(q)
		}
	}},
}

var patienceRules = []rule{
	{"a job that would be tried again too late is dead", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), patience(time.Minute))
		r.accept(q, "a", "b")
		t0 := r.clock.Now()
		r.fail(time.Minute, r.grant(q, 1, "a")...)
		s := settlement(queue.Fail, r.grant(q, 1, "b")[0])
		s.After, s.Reason = time.Minute+time.Microsecond, "421"
		r.settled(queue.Dead, s)
		r.settled(queue.Dead, s) // said again
		r.timeline(t0.Time(), q, "b", told{0, 0, "client@bench", queue.AttemptDied, "421"})
		r.clock.Advance(time.Minute)
		s = settlement(queue.Fail, r.grant(q, 9, "a")[0])
		r.settled(queue.Scheduled, s)
		r.clock.Advance(time.Microsecond)
		r.settled(queue.Dead, settlement(queue.Fail, r.grant(q, 9, "a")[0]))
		r.tallies(q, tally{appended: 2, died: 2, dead: 2, retried: 2})
	}},
	{"it is counted from its append, or its replay", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), patience(time.Minute))
		r.accept(q, "a")
		r.clock.Advance(time.Hour)
		r.settled(queue.Dead, settlement(queue.Fail, r.grant(q, 9, "a")[0]))
		r.replays(q, []string{"a"}, queue.Replayed)
		r.fail(time.Minute, r.grant(q, 9, "a")...)
	}},
	{"what is given back, held or lost may be as old as it likes", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), patience(time.Second))
		r.accept(q, "a")
		r.clock.Advance(time.Hour)
		r.release(r.grant(q, 9, "a")...)
		r.hold("", r.grant(q, 9, "a")...)
		r.decides(q, "a", queue.Release, "", queue.Waiting)
		r.grant(q, 9, "a")
		r.clock.Advance(time.Minute)
		r.deliver(r.grant(q, 9, "a")...)
	}},
	{"a changed deadline applies to jobs under way", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), patience(time.Second))
		r.accept(q, "a", "b")
		r.clock.Advance(time.Hour)
		v := r.grant(q, 9, "a", "b")
		r.queue(q, "unlimited", leased(time.Minute, 9))
		r.fail(time.Hour, v[0])
		r.queue(q, "unlimited", leased(time.Minute, 9), patience(time.Minute))
		r.settled(queue.Dead, settlement(queue.Fail, v[1]))
	}},
}
