package queuetest

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// hold settles jobs as held.
func (r *rig) hold(reason string, list ...queue.Reservation) {
	r.Helper()
	for _, v := range list {
		s := settlement(queue.Hold, v)
		s.Reason = reason
		r.settled(queue.Held, s)
	}
}

// decides decides about held jobs and compares their states afterwards.
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
	return func(s *queue.Spec) { s.Retry.Deadline = unit.Duration(d) }
}

// mayHaveBeenSent is the reason of a job whose lease ran out where on_unknown is not retry.
const mayHaveBeenSent = "the lease ran out; it may have been sent"

var heldRules = []rule{
	{"a held job waits for a decision, in its place", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(3), leased(time.Minute, 2))
		t0 := r.clock.Now()
		r.accept(q, "a", "b", "c")
		v := r.grant(q, 1, "a")
		r.clock.Advance(time.Second)
		r.hold("the connection was lost", v...)
		at := r.clock.Now()
		r.clock.Advance(time.Hour)
		r.tallies(q, tally{waiting: 2, held: 1, appended: 3})
		if i := r.info(q); i.Size() != 3 || len(i.Errors) != 1 || i.Errors[0].Reason != "the connection was lost" ||
			i.Errors[0].ID != "a" || !i.Errors[0].At.Equal(at.Time()) {
			r.Errorf("%d held in all, errors %+v", i.Size(), i.Errors)
		}
		j := r.job(q, "a")
		if j.State != queue.Held || j.Attempts != 1 || j.Reason != "the connection was lost" ||
			instantOf(j.HeldAt) != at || j.Position != 0 || !j.ETA.At.IsZero() || !j.DueAt.IsZero() ||
			!j.EndedAt.IsZero() || instantOf(j.AppendedAt) != t0 {
			r.Errorf("got %+v", j)
		}
		r.timeline(t0.Time(), q, "a", wantAttempt{
			0, 1, "client@bench", queue.AttemptUnknown, "the connection was lost",
		})
		r.waitsFor(queue.Why{By: cause.Held, Reason: "the connection was lost"}, q, "a")
		r.held(q, "a")
		l := r.page(queue.ListRequest{Queue: q, State: queue.Held, Limit: 9})
		if got, want := l.Jobs[0], r.asListed(q, "a"); timelineText(got.Timeline) != "" || got.HeldAt != want.HeldAt ||
			got.Attempts != 1 || got.Reason != want.Reason || !got.DueAt.IsZero() {
			r.Errorf("listed %+v", got)
		}
		r.outcome(queue.Full, job(q, "d"))
		r.duplicate(job(q, "a"), queue.Held, 0)
		r.outcome(queue.Conflict, jobOfLane("lane", q, "a"))
		r.audit()
		r.sameIDs(r.reserve(q, 9), "b", "c")
		r.decides(q, "a", queue.Deliver, "", queue.Delivered)
	}},
	{"a released job waits at its turn, and its attempts stay spent", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 2))
		r.accept(q, "a", "b", "c")
		t0 := r.clock.Now()
		s := settlement(queue.Hold, r.grant(q, 1, "a")[0])
		s.Reason = "lost"
		r.settled(queue.Held, s)
		r.decides(q, "a", queue.Release, "whatever", queue.Waiting)
		if j := r.job(q, "a"); j.State != queue.Waiting || j.Position != 1 || j.Attempts != 1 || j.Reason != "lost" ||
			!j.HeldAt.IsZero() {
			r.Errorf("got %+v", j)
		}
		r.timeline(t0.Time(), q, "a", wantAttempt{0, 0, "client@bench", queue.AttemptUnknown, "lost"})
		r.settled(queue.Held, s) // settled again
		r.tallies(q, tally{waiting: 3, appended: 3})
		v := r.grant(q, 9, "a", "b", "c")
		if v[0].Attempt != 2 {
			r.Errorf("attempt %d", v[0].Attempt)
		}
		r.settled(queue.Held, s) // of an attempt that is over
		r.state(queue.Leased, q, "a")
		r.settled(queue.Dead, settlement(queue.Fail, v[0])) // its last attempt
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
	{"a job marked delivered has ended", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(1), leased(time.Minute, 9))
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
		if j := r.job(q, "a"); j.State != queue.Delivered || j.Attempts != 2 || j.Reason != "the provider says so" ||
			instantOf(j.EndedAt) != r.clock.Now() || len(j.Timeline) != 0 {
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
	{"a job marked dead is dead and can be replayed", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(2))
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
			r.timeline(t0, q, id, wantAttempt{0, 0, "client@bench", queue.AttemptUnknown, "lost"})
		}
		r.tallies(q, tally{appended: 2, died: 2, dead: 2})
		if n := len(r.info(q).Errors); n != 2 { // the failures that drainers reported
			r.Errorf("%d errors", n)
		}
		s := settlement(queue.Hold, v[0])
		r.settled(queue.Held, s)
		r.replays(q, []string{"a"}, queue.Replayed)
		r.stale(s)
		r.deliver(r.grant(q, 9, "a")...)
		r.forgets(q, []string{"b"}, true)
	}},
	{"only held jobs can be decided", func(r *rig) {
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
				queue.Delivered, queue.Dead, queue.Scheduled, queue.Leased, queue.Cancelled, queue.Waiting,
				queue.StateNone)
		}
		if after := r.info(q); !sameCounts(before, after) || after.Held != 1 {
			r.Errorf("before %+v\nafter %+v", before, after)
		}
		r.decides(q, "held waiting held", queue.Bury, "", queue.Dead, queue.Waiting, queue.Dead)
		r.decides(q, "", queue.Bury, "")
		r.settled(queue.Delivered, settlement(queue.Deliver, v[3]))
	}},
	{"deferred jobs, and dead jobs of a former queue, cannot be decided", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(1))
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
	{"an invalid decision is refused", func(r *rig) {
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
}

// drainHeld releases all held jobs and drains the queue.
func (r *rig) drainHeld(queueName string) {
	r.Helper()
	list := r.pages(queue.ListRequest{Queue: queueName, State: queue.Held}, queue.MaxPage, nil)
	_, err := r.e.Decide(r.ctx, queueName, strings.Fields(namesOf(list)), queue.Release, "")
	r.check(err)
	r.drain(queueName)
}
