package queuetest

import (
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// refusedElsewhere returns a job that a deferring rule of another group refused.
func refusedElsewhere(wait time.Duration, queueName, id string) queue.Job {
	j := job(queueName, id)
	j.Limited = wait
	return j
}

var ruleDeferRules = []rule{
	{"a job refused by a deferring rule is set aside, whatever the queue does, and charged to no rule", func(r *rig) {
		for i, overflow := range []string{queue.Reject, queue.Defer} {
			q := []string{"g.a", "g.b"}[i]
			deferring, other := q+"-d", q+"-o"
			r.limiter(countingRule(deferring, 1, withKey(byTo), withAction(rules.Defer)))
			r.limiter(countingRule(other, 9))
			s := r.overflowOf(q, "unlimited", asks(other, deferring), func(s *queue.Spec) { s.Overflow = overflow })
			got := r.offer(mails(s.q, "x", "a", "b")...)
			r.checkRules(got, "accepted: "+other+" 8, "+deferring+" 0", "set_aside: "+other+" 7, "+deferring+" no")
			a := got[1]
			if a.State != queue.Deferred || a.Ticket == "" || !a.At.Equal(r.clock.Now().Time()) || a.Position != 2 ||
				a.ETA.Exact || a.ETA.At.IsZero() || a.RetryAfter != 0 || a.Err != nil {
				r.Errorf("set aside: %+v", a)
			}
			s.store(jobTo(s.q, "b", "x"), a)
			r.checkRemaining(other, "", 8)
			r.state(queue.Deferred, s.q, "b")
			r.tallies(s.q, tally{waiting: 1, deferred: 1, appended: 1, setAside: 1})
			r.deferredAgain(r.offer(jobTo(s.q, "b", "x"))[0], a)
			r.checkRemaining(other, "", 8)
			s.takes(readmit.Returned) // later and in turn, although the key has no room
			r.drain(s.q)
			r.checkRemaining(other, "", 8)
			r.checkRemaining(deferring, "x", 0)
		}
	}},
	{"an appended job, or one with overflow reject, is refused", func(r *rig) {
		r.limiter(countingRule("q.r", 1, withAction(rules.Defer)))
		q := r.queue("q", "unlimited", asks("q.r"), defers)
		r.accept(q, "a")
		r.checkRules(r.append(withOverflow(queue.Defer, q, "b")), "limit_reached: q.r no")
		r.checkRules(r.offer(withOverflow(queue.Reject, q, "b")), "limit_reached: q.r no")
		r.tallies(q, tally{waiting: 1, appended: 1, refused: 2})
		r.checkRules(
			r.offer(withOverflow("", q, "b"), withOverflow(queue.Defer, q, "c")), "set_aside: q.r no",
			"set_aside: q.r no",
		)
	}},
	{"a job is set aside only if all refusing rules defer", func(r *rig) {
		r.limiter(countingRule("q.defer", 1, withAction(rules.Defer)))
		r.limiter(countingRule("q.also", 2, withAction(rules.Defer)))
		r.limiter(countingRule("q.reject", 3, withKey(byTo)))
		r.limiter(countingRule("q.shadow", 1, withAction(rules.Shadow)))
		q := r.queue("q", "unlimited", asks("q.defer", "q.also", "q.reject", "q.shadow"))
		for range 2 {
			r.takes("q.reject", "x", 1, true)
		}
		r.checkRules(r.offer(
			jobTo(q, "a", "x"), jobTo(q, "b", "y"), jobTo(q, "c", "x"),
		), "accepted: q.defer 0, q.also 1, q.reject 0, q.shadow (0)",
			"set_aside: q.defer no, q.also 0, q.reject 2, q.shadow (no)", "limit_reached: q.defer no, q.also 0, "+
				"q.reject no, q.shadow (no)")
		r.takes("q.also", "", 1, true)
		r.checkRules(r.offer(jobTo(q, "d", "y")), "set_aside: q.defer no, q.also no, q.reject 2, q.shadow (no)")
	}},
	{"max_deferred limits these jobs too", func(r *rig) {
		r.limiter(countingRule("q.r", 1, withAction(rules.Defer)))
		q := r.queue("q", "10/s", asks("q.r"), func(s *queue.Spec) { s.Deferred.MaxJobs = 2 })
		got := r.offer(jobs(q, "a", "b", "c", "d")...)
		r.checkRules(got, "accepted: q.r 0", "set_aside: q.r no", "set_aside: q.r no", "overflow_full: q.r no")
		if a := got[3]; a.RetryAfter <= 0 || a.State != queue.StateNone || a.Ticket != "" {
			r.Errorf("got %+v", a)
		}
		r.unknown(q, "d")
		r.tallies(q, tally{waiting: 1, deferred: 2, appended: 1, setAside: 2, refused: 1})
	}},
	{"a job set aside for lack of room, or behind a backlog, is charged", func(r *rig) {
		r.limiter(countingRule("q.r", 9, withKey(byTo)))
		s := r.overflowOf(
			"q", "unlimited", withCapacity(2), asks("q.r"), func(s *queue.Spec) { s.Deferred.MaxJobs = 2 },
		)
		got := r.offer(mails(s.q, "x", "a", "b", "c")...)
		r.checkRules(got, "accepted: q.r 8", "accepted: q.r 7", "set_aside: q.r 6")
		r.checkRemaining("q.r", "x", 6)
		r.drain(s.q)
		r.checkRules(
			r.offer(jobTo(s.q, "d", "x"), jobTo(s.q, "e", "x"), jobTo(s.q, "f", "y")), "set_aside: q.r 5",
			"overflow_full: q.r 4", "overflow_full: q.r 8",
		)
		r.checkRemaining("q.r", "x", 5)
		r.checkRemaining("q.r", "y", 9)
		r.e.Withdraw(r.ctx, []queue.Ticketed{ticketed(got[2], s.q)}) //nolint:errcheck // what it answers is another chapter's
		r.checkRemaining("q.r", "x", 5)                              // a withdrawal gives nothing back
	}},
	{"a job whose turn would come too late is refused and not charged", func(r *rig) {
		r.limiter(countingRule("q.r", 1, withAction(rules.Defer)))
		q := r.queue("q", "1/m", asks("q.r"))
		r.accept(q, "a")
		late := job(q, "late")
		late.ExpiresAt = r.clock.Now().Add(time.Second).Time()
		r.checkRules(r.offer(late), "expired: q.r no")
		r.tallies(q, tally{waiting: 1, appended: 1})
	}},
	{"a rule does not set aside a job whose lane is full", func(r *rig) {
		r.limiter(countingRule("q.r", 1, withAction(rules.Defer)))
		q := r.queue("q", "unlimited", asks("q.r"), everyLane(holding(1)))
		r.acceptJobs(jobOfLane(laneX, q, "a"))
		r.checkRules(r.offer(jobOfLane(laneX, q, "b"), jobOfLane(laneY, q, "c")), "lane_full", "set_aside: q.r no")
	}},
	{"a job deferred by a rule of another group is set aside, whatever its queue's rules and overflow", func(r *rig) {
		for i, overflow := range []string{queue.Reject, queue.Defer} {
			s := r.overflowOf([]string{"a", "b"}[i], "unlimited", func(s *queue.Spec) { s.Overflow = overflow })
			got := r.offer(job(s.q, "1"), refusedElsewhere(time.Minute, s.q, "2"), withOverflow(queue.Reject, s.q, "3"))
			r.checkRules(got, "accepted", "set_aside", "accepted")
			a := got[1]
			if a.State != queue.Deferred || a.Ticket == "" || !a.At.Equal(r.clock.Now().Time()) || a.Position != 2 ||
				a.RetryAfter != 0 || a.Err != nil {
				r.Errorf("set aside: %+v", a)
			}
			s.store(refusedElsewhere(time.Minute, s.q, "2"), a)
			r.deferredAgain(r.offer(refusedElsewhere(time.Minute, s.q, "2"))[0], a)
			r.deferredAgain(r.offer(job(s.q, "2"))[0], a)
			r.tallies(s.q, tally{waiting: 2, deferred: 1, appended: 2, setAside: 1})
			s.takes(readmit.Returned) // later and in turn
			r.checkRules(
				r.offer(refusedElsewhere(time.Minute, s.q, "1"), refusedElsewhere(time.Minute, s.q, "2")), "duplicate",
				"duplicate",
			)
			r.drain(s.q)
		}
	}},
	{"an appended job, or one with overflow reject, is refused with that rule's wait", func(r *rig) {
		q := r.queue("q", "unlimited", defers)
		never := refusedElsewhere(time.Minute, q, "a")
		never.Overflow = queue.Reject
		for _, a := range append(r.append(refusedElsewhere(time.Minute, q, "a")), r.offer(never)...) {
			if a.Outcome != queue.LimitReached || a.RetryAfter != time.Minute || a.State != queue.StateNone ||
				a.Ticket != "" || a.Err != nil {
				r.Errorf("got %+v", a)
			}
		}
		if a := r.append(refusedElsewhere(time.Nanosecond, q, "a"))[0]; a.Outcome != queue.LimitReached ||
			a.RetryAfter != time.Millisecond {
			r.Errorf("got %+v", a)
		}
		r.unknown(q, "a")
		r.tallies(q, tally{refused: 3})
	}},
	{"the job is charged to none of the queue's own rules, and each of them may still refuse it", func(r *rig) {
		r.limiter(countingRule("q.reject", 1))
		r.limiter(countingRule("q.defer", 1, withAction(rules.Defer)))
		q := r.queue("q", "unlimited", asks("q.reject", "q.defer"))
		r.checkRules(r.offer(
			refusedElsewhere(time.Second, q, "a"), job(q, "b"), refusedElsewhere(time.Second, q, "b"),
			refusedElsewhere(time.Second, q, "c"),
		),
			"set_aside: q.reject 0, q.defer 0", "accepted: q.reject 0, q.defer 0", "duplicate", "limit_reached: "+
				"q.reject no, q.defer no")
		r.checkRemaining("q.reject", "", 0)
		wait := r.offer(refusedElsewhere(time.Hour, q, "c"))[0] // the longest wait of all refusing rules
		if wait.Outcome != queue.LimitReached || wait.RetryAfter != time.Hour {
			r.Errorf("got %+v", wait)
		}
		r.check(r.e.ResetRule(r.ctx, "q.reject"))
		r.checkRules(r.offer(refusedElsewhere(time.Second, q, "c")), "set_aside: q.reject 0, q.defer no")
		r.checkRemaining("q.reject", "", 1)
	}},
	{"among other jobs it keeps its place, and it finds the overflow full as they do", func(r *rig) {
		s := r.overflowOf("q", "10/s", func(s *queue.Spec) { s.Deferred.MaxJobs = 2 })
		got := r.offer(
			job(s.q, "a"), job(s.q, "b"), refusedElsewhere(time.Minute, s.q, "c"), job(s.q, "d"),
			refusedElsewhere(time.Minute, s.q, "e"), withOverflow(queue.Reject, s.q, "f"),
		)
		r.checkRules(got, "accepted", "accepted", "set_aside", "set_aside", "overflow_full", "accepted")
		if got[4].RetryAfter <= 0 || got[2].Position != 3 || got[3].Position != 4 {
			r.Errorf("got %+v", got)
		}
		r.unknown(s.q, "e")
		s.store(job(s.q, "c"), got[2])
		s.store(job(s.q, "d"), got[3])
		s.takes(readmit.Returned, readmit.Returned)
		r.tallies(s.q, tally{waiting: 5, appended: 5, setAside: 2, returned: 2, refused: 1})
	}},
}
