package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/rules"
)

var auditJobRules = []rule{
	{"moving jobs leaves no entry", func(r *rig) {
		q := r.queue("q", "unlimited", func(s *queue.Spec) { s.OnUnknown = queue.UnknownHold })
		r.putRule(countingRule("q.r", 5))
		r.audits(0, 0, func() {
			r.accept(q, "a", "b", "c", "d", "e")
			v := r.grant(q, 5, "a", "b", "c", "d", "e")
			_, err := r.e.Extend(r.ctx, []queue.Lease{lease(v[0])})
			r.check(err)
			for i, verdict := range []queue.Verdict{queue.Deliver, queue.Bury, queue.Hold, queue.Release, queue.Fail} {
				r.settle(settlement(verdict, v[i]))
			}
			_, err = r.e.Take(r.ctx, "q.r", []rules.Take{{Key: "k"}})
			r.check(err)
			r.clock.Advance(time.Hour) // leases run out, jobs come back
			r.reserve(q, 9)
			r.info(q)
		})
	}},
	{"each call that changes jobs is an entry with their number", func(r *rig) {
		q := r.queue("q", "unlimited", func(s *queue.Spec) { s.OnUnknown = queue.UnknownHold })
		of := func(what changekind.Kind, jobs int64, ids ...string) audit.Entry {
			return audit.Entry{Of: "queue", Name: q, What: what, Jobs: jobs, IDs: ids}
		}
		cancel := func(id string) func() {
			return func() {
				_, err := r.e.Cancel(r.ctx, q, id)
				r.check(err)
			}
		}
		r.accept(q, "a", "b")
		r.audited(of(changekind.Cancelled, 1, "a"), cancel("a")) // one change in the queue's history, but
		r.audited(of(changekind.Cancelled, 1, "b"), cancel("b")) // two entries here
		r.audits(0, 0, cancel("b"))
		if n := len(r.changes(q, 9)); n != 2 {
			r.Errorf("%d changes", n)
		}

		ids := numbered("dead", queue.MaxChangeIDs+5)
		r.accept(q, ids...)
		for _, v := range r.reserve(q, len(ids)) {
			r.settled(queue.Dead, settlement(queue.Bury, v))
		}
		replay := of(changekind.Replayed, int64(len(ids)-2), ids[2:2+queue.MaxChangeIDs]...)
		r.audited(replay, func() {
			_, err := r.e.Replay(r.ctx, q, ids[2:])
			r.check(err)
		})
		r.audits(0, 0, func() {
			_, err := r.e.Replay(r.ctx, q, ids[2:])
			r.check(err)
		})
		r.audited(of(changekind.Forgotten, 2, ids[:2]...), func() {
			_, err := r.e.Forget(r.ctx, q, append(ids[:2:2], "none"))
			r.check(err)
		})

		purged := of(changekind.Purged, 7)
		ask := queue.PurgeRequest{Queue: q, State: queue.Waiting, Limit: 7}
		purged.Detail = ask.Detail()
		purge := func() {
			done, err := r.e.Purge(r.ctx, ask)
			r.check(err)
			ask.After = done.Next
		}
		r.audited(purged, purge)
		purged.Jobs = 6
		r.audited(purged, purge)

		r.accept(q, "x", "y", "z")
		for _, v := range r.grant(q, 3, "x", "y", "z") {
			r.settled(queue.Held, settlement(queue.Hold, v))
		}
		decided := of(changekind.Decided, 2, "x", "y")
		decided.Detail, decided.Reason = queue.Bury.Decides().String(), "a bug"
		r.audited(decided, func() {
			_, err := r.e.Decide(r.ctx, q, []string{"x", "y"}, queue.Bury, "a bug")
			r.check(err)
		})
		released := of(changekind.Decided, 1, "z")
		released.Detail = queue.Release.Decides().String()
		r.audited(released, func() {
			_, err := r.e.Decide(r.ctx, q, []string{"z"}, queue.Release, "")
			r.check(err)
		})
	}},
	{"concurrent calls are separate entries", func(r *rig) {
		q := r.queue("q", "unlimited")
		const callers, each = 6, 8
		for c := range callers {
			r.accept(q, numbered(fmt.Sprint("c", c), each)...)
		}
		r.crowd(callers, func(c int) int {
			ctx := audit.WithActor(r.ctx, audit.Actor{Name: fmt.Sprint("token:", c)})
			for _, id := range numbered(fmt.Sprint("c", c), each) {
				if _, err := r.e.Cancel(ctx, q, id); err != nil {
					r.Error(err)
				}
			}
			return 0
		})
		seen := map[string]bool{}
		for _, e := range r.auditOf(r.partition(q))[1:] {
			if e.Jobs != 1 || len(e.IDs) != 1 || seen[e.IDs[0]] || e.Actor.Name != "token:"+e.IDs[0][1:2] {
				r.Errorf("%+v", e)
				continue
			}
			seen[e.IDs[0]] = true
		}
		if len(seen) != callers*each {
			r.Errorf("%d entries", len(seen))
		}
	}},
	{"forgetting dead jobs of a deleted queue is an entry of its name", func(r *rig) {
		q := r.queue("q", "1/s")
		r.accept(q, "a")
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "a")[0]))
		r.delete(q)
		want := audit.Entry{Of: "queue", Name: q, What: changekind.Forgotten, Jobs: 1, IDs: []string{"a"}}
		r.audited(want, func() {
			_, err := r.e.Forget(r.ctx, q, []string{"a"})
			r.check(err)
		})
	}},
	{"resuming a receiver's stop is an entry", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a")
		s := settlement(queue.Throttle, r.grant(q, 1, "a")[0])
		s.After = time.Hour
		r.settled(queue.Waiting, s)
		want := audit.Entry{Of: "queue", Name: q, What: changekind.Resumed, Detail: changelog.StopLifted}
		r.audited(want, func() { r.check(r.e.Resume(r.ctx, q)) })
	}},
}
