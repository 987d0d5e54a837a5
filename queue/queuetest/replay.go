package queuetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// replays replays jobs and checks each outcome.
func (r *rig) replays(queueName string, ids []string, want ...queue.ReplayOutcome) {
	r.Helper()
	got, err := r.e.Replay(r.ctx, queueName, ids)
	if err != nil || !slices.Equal(got, want) {
		r.Fatalf("replay %v of %s: %v, %v; want %v", ids, queueName, got, err, want)
	}
}

func (r *rig) forgets(queueName string, ids []string, want ...bool) {
	r.Helper()
	got, err := r.e.Forget(r.ctx, queueName, ids)
	if err != nil || !slices.Equal(got, want) {
		r.Fatalf("forget %v of %s: %v, %v; want %v", ids, queueName, got, err, want)
	}
}

func (r *rig) replayed(queueName string, want int64) {
	r.Helper()
	if got := r.info(queueName).Replayed; got != want {
		r.Errorf("%d replayed, want %d", got, want)
	}
}

var replayRules = []rule{
	{"a replayed job is like a new one", func(r *rig) {
		q := r.queue("q", "1/s", leased(time.Minute, 2))
		j := job(q, "a")
		j.Cost, j.Headers, j.ContentType = 3, map[string]string{"X-Tenant": "t"}, "text/plain"
		r.acceptJobs(j)
		v := r.grant(q, 1, "a")
		r.fail(0, v...)
		r.clock.Advance(3 * time.Second)
		bury := settlement(queue.Bury, r.grant(q, 1, "a")[0])
		bury.Reason = "no such address"
		r.settled(queue.Dead, bury)
		r.clock.Advance(3 * time.Second)
		r.accept(q, "b")
		r.clock.Advance(time.Minute)
		r.replays(q, []string{"a"}, queue.Replayed)
		t := r.clock.Now()
		if i := r.job(q, "a"); i.State != queue.Waiting || i.Position != 2 || i.Attempts != 0 || i.Reason != "" ||
			i.Cost != 3 ||
			instantOf(i.AppendedAt) != t || !i.EndedAt.IsZero() {
			r.Errorf("got %+v", i)
		}
		r.tallies(q, tally{waiting: 2, appended: 2, died: 1, retried: 1})
		r.replayed(q, 1)
		r.duplicate(j, queue.Waiting, 2)
		r.outcome(queue.Conflict, job(q, "a"))
		r.stale(bury)
		r.stale(settlement(queue.Deliver, v[0]))
		r.replays(q, []string{"a", "b"}, queue.NotDead, queue.NotDead)
		got := r.drain(q)
		r.sameIDs(got, "b", "a")
		if g := got[1]; string(g.Payload) != string(j.Payload) || g.ContentType != j.ContentType ||
			!maps.Equal(g.Headers, j.Headers) || g.Cost != 3 || g.Attempt != 1 ||
			instantOf(g.AppendedAt) != t {
			r.Errorf("got %+v", g)
		}
	}},
	{"a replayed job may die and be replayed again", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 2))
		r.buried("", job(q, "a"))
		for range 3 {
			r.replays(q, []string{"a"}, queue.Replayed)
			r.fail(0, r.grant(q, 1, "a")...)
			s := settlement(queue.Fail, r.grant(q, 1, "a")[0])
			r.settled(queue.Dead, s)
			r.settled(queue.Dead, s)
		}
		r.tallies(q, tally{dead: 1, appended: 1, died: 4, retried: 3})
		r.replayed(q, 3)
		r.lists(queue.ListRequest{Queue: q, State: queue.Dead}, "a")
	}},
	{"only dead jobs are replayed", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute))
		r.buried("", jobs(q, "forgotten")...)
		r.clock.Advance(time.Minute)
		r.accept(q, "delivered", "leased", "failed", "cancelled", "waiting")
		v := r.grant(q, 3, "delivered", "leased", "failed")
		r.deliver(v[0])
		r.fail(time.Hour, v[2])
		r.cancels(queue.Cancelled, q, "cancelled")
		ids := []string{"delivered", "leased", "failed", "cancelled", "waiting", "forgotten", "nobody"}
		r.replays(q, ids, repeatReplay(queue.NotDead, 7)...)
		r.forgets(q, ids, make([]bool, 7)...)
		for id, want := range map[string]queue.State{
			"delivered": queue.Delivered, "leased": queue.Leased, "failed": queue.Scheduled,
			"cancelled": queue.Cancelled, "waiting": queue.Waiting,
		} {
			r.state(want, q, id)
		}
		r.replayed(q, 0)
	}},
	{"each job is judged by itself, in the given order", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(4))
		r.buried("", jobs(q, "a", "b", "c")...)
		r.accept(q, "x")
		r.replays(
			q, []string{"c", "nobody", "c", "a", "x"}, queue.Replayed, queue.NotDead, queue.NotDead, queue.Replayed,
			queue.NotDead,
		)
		r.lists(queue.ListRequest{Queue: q, State: queue.Dead}, "b")
		r.sameIDs(r.drain(q), "x", "c", "a")
		if out, err := r.e.Replay(r.ctx, q, nil); err != nil || len(out) != 0 {
			r.Errorf("nothing: %v, %v", out, err)
		}
	}},
	{"a full queue, lane or schedule has no room", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(4), mostScheduled(1), func(s *queue.Spec) { s.Lanes.Capacity = 1 })
		at := r.clock.Now().Add(time.Hour)
		r.buried("", job(q, "n1"), job(q, "n2"), jobOfLane("x", q, "x1"), jobOfLane("y", q, "y1"))
		// The scheduled job died because it was on the overflow for too long.
		r.beside[q]++
		r.checkReadmit(queue.ReadmitRequest{Queue: q, Holder: "holder", Overflow: "overflow", Jobs: []queue.Readmission{
			{Job: later(at, q, "later"), Order: 1, At: r.clock.Now().Time().Add(-10_000 * time.Hour)},
		}}, readmit.TooOld)
		r.schedule(later(at, q, "other"))
		r.acceptJobs(jobOfLane("x", q, "x2"))
		r.replays(
			q, []string{"later", "x1", "n1", "y1", "n2"}, queue.NoRoom, queue.NoRoom, queue.Replayed, queue.Replayed,
			queue.NoRoom,
		)
		r.tallies(q, tally{waiting: 3, scheduled: 1, dead: 3, appended: 6, died: 5})
		r.cancels(queue.Cancelled, q, "other")
		r.cancels(queue.Cancelled, q, "x2")
		r.replays(q, []string{"x1", "later", "n2"}, queue.Replayed, queue.Replayed, queue.NoRoom)
		r.state(queue.Scheduled, q, "later")
		if j := r.job(q, "later"); instantOf(j.DueAt) != at {
			r.Errorf("got %+v", j)
		}
		r.replayed(q, 4)
		r.clock.Set(at)
		r.drain(q)
		r.state(queue.Delivered, q, "later")
	}},
	{"deferred jobs keep their places", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4), lowWater(0.5))
		r.buried("", jobs(s.q, "a", "b", "c")...)
		s.full("x", "y", "z")
		for range 2 {
			r.deliver(r.reserve(s.q, 1)...)
		}
		r.replays(s.q, []string{"a"}, queue.NoRoom)
		r.deliver(r.reserve(s.q, 1)...)
		r.replays(s.q, []string{"a", "b"}, queue.Replayed, queue.NoRoom)
		s.takes(readmit.Returned, readmit.Returned)
	}},
	{"a replayed job keeps its lane and its priority", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(queue.LaneRule{MaxInFlight: 1}))
		r.buried("", jobOfLane("x", q, "a"), withPriority(5, "y", q, "b"))
		r.acceptJobs(jobOfLane("x", q, "x1"), jobOfLane("y", q, "y1"))
		r.replays(q, []string{"a", "b"}, queue.Replayed, queue.Replayed)
		if i := r.job(q, "a"); i.Lane != "x" || i.Position != 2 {
			r.Errorf("a: %+v", i)
		}
		if i := r.job(q, "b"); i.Lane != "y" || i.Priority != 5 || i.Position != 1 {
			r.Errorf("b: %+v", i)
		}
		v := r.reserve(q, 9)
		r.lanes(q, 2)
		got := ids(v)
		slices.Sort(got)
		if !slices.Equal(got, []string{"b", "x1"}) {
			r.Fatalf("granted %v", got)
		}
		r.deliver(v...)
		r.drain(q)
	}},
	{"a replayed job past its deadline ends when its turn comes", func(r *rig) {
		q := r.queue("q", "unlimited")
		j := job(q, "a")
		j.ExpiresAt = r.clock.Now().Time().Add(time.Minute)
		r.buried("", j)
		r.clock.Advance(time.Hour)
		r.replays(q, []string{"a"}, queue.Replayed)
		r.accept(q, "b")
		r.deliver(r.grant(q, 9, "b")...)
		r.state(queue.Expired, q, "a")
		r.tallies(q, tally{appended: 2, died: 1, timedOut: 1, delivered: 1})
	}},
	{"a dead letter of the overflow can be replayed", func(r *rig) {
		q := r.queue("q", "unlimited")
		j := jobOfLane("lane", q, "a")
		r.beside[q]++
		r.checkReadmit(queue.ReadmitRequest{Queue: q, Holder: "holder", Overflow: "overflow", Jobs: []queue.Readmission{
			{Job: j, Order: 1, At: r.clock.Now().Time().Add(-10_000 * time.Hour)},
		}}, readmit.TooOld)
		r.replays(q, []string{"a"}, queue.Replayed)
		v := r.drain(q)
		if len(v) != 1 || string(v[0].Payload) != string(j.Payload) || v[0].Lane != "lane" {
			r.Errorf("got %+v", v)
		}
		r.tallies(q, tally{died: 1, delivered: 1})
	}},
	{"a replayed job leaves at the pace", func(r *rig) {
		q := r.queue("q", "1/s")
		r.buried("", job(q, "a"))
		r.replays(q, []string{"a"}, queue.Replayed)
		t0 := r.clock.Now()
		r.grant(q, 9)
		r.drain(q)
		if took := r.clock.Now().Sub(t0); took < time.Second-queue.Horizon || took > time.Second {
			r.Errorf("it left after %v", took)
		}
	}},
	{"a replay wakes the watcher", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.buried("", job(q, "a"))
		r.awaitWake(q, "w", func(int) {
			for _, v := range r.watching("w", q) {
				r.settled(queue.Dead, settlement(queue.Bury, v))
			}
			r.replays(q, []string{"a"}, queue.Replayed)
		})
	}},
	{"a forgotten job is unknown", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.buried("", jobs(q, "a", "b", "c")...)
		r.forgets(q, []string{"b", "b", "nobody"}, true, false, false)
		r.unknown(q, "b")
		r.replays(q, []string{"b"}, queue.NotDead)
		r.tallies(q, tally{dead: 2, appended: 3, died: 3})
		r.audit()
		other := job(q, "b")
		other.Payload = []byte("another")
		r.acceptJobs(other)
		r.lists(queue.ListRequest{Queue: q, State: queue.Dead}, "a c")
		r.sameIDs(r.drain(q), "b")
	}},
	{"the retention of the other jobs continues", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute), func(s *queue.Spec) { s.Retention.Max = 4 })
		for _, id := range numbered("j", 6) {
			r.buried("", job(q, id))
			r.clock.Advance(time.Second)
		}
		r.lists(queue.ListRequest{Queue: q, State: queue.Dead}, "j00003 j00004 j00005 j00006")
		r.forgets(q, []string{"j00004"}, true)
		r.replays(q, []string{"j00003"}, queue.Replayed)
		r.deliver(r.grant(q, 1, "j00003")...)
		r.buried("", job(q, "k2"))
		r.lists(queue.ListRequest{Queue: q, State: queue.Dead}, "j00005 j00006 k2")
		r.clock.Advance(time.Minute - 2*time.Second)
		r.lists(queue.ListRequest{Queue: q, State: queue.Dead}, "j00006 k2")
		r.clock.Advance(time.Hour)
		if i := r.info(q); i.Dead != 0 {
			r.Errorf("%d dead", i.Dead)
		}
	}},
	{"an invalid replay or forget is refused", func(r *rig) {
		q := r.queue("q", "unlimited")
		for _, ids := range [][]string{{""}, {"a b"}, {strings.Repeat("x", 1<<16)}, numbered("j", queue.MaxPage+1)} {
			field := "ids"
			if len(ids) == 1 {
				field = "ids[0]"
			}
			_, err := r.e.Replay(r.ctx, q, ids)
			r.notAField(err, field)
			_, err = r.e.Forget(r.ctx, q, ids)
			r.notAField(err, field)
		}
		for _, name := range []string{"nobody", "", "a b"} {
			_, err := r.e.Replay(r.ctx, name, []string{"a"})
			r.refuses(err, queue.ErrUnknownQueue)
			_, err = r.e.Forget(r.ctx, name, []string{"a"})
			r.refuses(err, queue.ErrUnknownQueue)
		}
	}},
	{"concurrent replays, purges and drainers lose nothing", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(400))
		ids := numbered("j", 200)
		r.buried("", jobs(q, ids...)...)
		_, replayed := r.crowd(4, func(w int) (n int) {
			for i := 0; i < len(ids); i += 20 {
				if w == 3 {
					_, err := r.e.Purge(r.ctx, queue.PurgeRequest{Queue: q, State: queue.Waiting, Limit: 5})
					if err != nil && !errors.Is(err, queue.ErrUnavailable) {
						r.Error(err)
					}
					continue
				}
				out, err := r.e.Replay(r.ctx, q, ids[i:i+20])
				if err != nil {
					r.Error(err)
				}
				for _, o := range out {
					if o == queue.Replayed {
						n++
					}
				}
			}
			return n
		})
		if sum := replayed[0] + replayed[1] + replayed[2]; sum != len(ids) {
			r.Errorf("%d were replayed, of %d: %s", sum, len(ids), fmt.Sprint(replayed))
		}
		r.drain(q)
	}},
	{"a replay asks no rule, also for jobs of others", func(r *rig) {
		r.putRule(countingRule("q.r", 1, withKey("{app}")))
		q := r.queue("q", "unlimited", asks("q.r"))
		j := job(q, "a")
		j.App = "acme"
		r.acceptJobs(j)
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "a")[0]))
		for range 2 {
			r.replays(q, []string{"a"}, queue.Replayed)
			r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "a")[0]))
		}
		for app, left := range map[string]int64{"acme": 0, rules.OperatorApp: 1} {
			a, err := r.e.Take(r.ctx, "q.r", []rules.Take{{Op: rules.TakePeek, Key: app}})
			r.check(err)
			if a[0].Allowed != (left > 0) {
				r.Errorf("%s: %+v", app, a[0])
			}
		}
	}},
}

func repeatReplay(o queue.ReplayOutcome, n int) []queue.ReplayOutcome {
	return slices.Repeat([]queue.ReplayOutcome{o}, n)
}
