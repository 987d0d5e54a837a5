package queuetest

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

// Rules of held jobs in lanes, lists, moves and the overflow.
var heldAmongRules = []rule{
	{"a held job cannot be cancelled, purged, replayed or forgotten, and does not expire", func(r *rig) {
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
	{"a queue with held jobs is deleted only with force", func(r *rig) {
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
	{"held jobs are listed by time, ties by id", func(r *rig) {
		q, other := r.queue("g.q", "unlimited"), r.queue("g.other", "unlimited")
		r.accept(other, "x")
		r.hold("", r.grant(other, 9, "x")...)
		r.acceptJobs(jobOfLane("x", q, "c"), jobOfLane("y", q, "a"), job(q, "d"), withPriority(7, "", q, "b"))
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
		seen := r.pages(req, 1, func(page []queue.JobInfo) { // a job that leaves hides no other
			r.decides(q, page[0].ID, queue.Deliver, "", queue.Delivered)
		})
		if got := namesOf(seen); got != "a c b d" {
			r.Errorf("seen %s", got)
		}
		req.Lane, req.Limit = new(string), 9
		_, err := r.e.ListJobs(r.ctx, req)
		r.notAField(err, "lane")
	}},
	{"a held job does not block its lane", func(r *rig) {
		for _, change := range []func(*queue.Spec){ordered, everyLane(queue.LaneRule{MaxInFlight: 1}), maxInFlight(1)} {
			q := r.queue("q", "unlimited", change, leased(time.Minute, 9))
			r.acceptJobs(jobsOfLane("x", q, "a", "b")...)
			r.hold("", r.grant(q, 9, "a")...)
			v := r.grant(q, 9, "b")
			r.decides(q, "a", queue.Release, "", queue.Waiting)
			r.grant(q, 9)
			r.deliver(v...)
			r.deliver(r.grant(q, 9, "a")...)
			r.delete(q)
		}
	}},
	{"an ordered queue without lanes continues", func(r *rig) {
		q := r.queue("q", "unlimited", ordered)
		r.accept(q, "a", "b", "c")
		r.hold("", r.grant(q, 9, "a")...)
		r.deliver(r.grant(q, 9, "b")...)
		r.decides(q, "a", queue.Release, "", queue.Waiting)
		r.deliver(r.grant(q, 9, "a")...)
		r.deliver(r.grant(q, 9, "c")...)
	}},
	{"a held job counts toward its lane's capacity", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(holding(1)))
		r.acceptJobs(jobOfLane("x", q, "a"))
		r.hold("", r.grant(q, 9, "a")...)
		r.outcome(queue.LaneFull, jobOfLane("x", q, "b"))
		if _, l := r.lane(q, "x"); l.Size != 1 || l.Waiting != 0 {
			r.Errorf("the lane: %+v", l)
		}
		r.lanes(q, 0)
		r.decides(q, "a", queue.Bury, "", queue.Dead)
		r.acceptJobs(jobOfLane("x", q, "b"))
		r.deliver(r.grant(q, 9, "b")...)
	}},
	{"no eta is exact while a held job may come back", func(r *rig) {
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
	{"a held job has used its slot", func(r *rig) {
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
	{"a released job wakes the watcher", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 900))
		r.accept(q, "a")
		r.awaitWake(q, "w", func(int) {
			r.hold("", r.watching("w", q)...)
			r.decides(q, "a", queue.Release, "", queue.Waiting)
		})
	}},
	{"jobs of a pull queue are held like others", func(r *rig) {
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
	{"a job from the overflow keeps its place while held", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2), lowWater(0.5))
		s.full("x", "y")
		for _, v := range r.reserve(s.q, 9) {
			r.deliver(v)
		}
		s.takes(readmit.Returned)
		r.hold("", r.reserve(s.q, 9)...)
		if i := r.info(s.q); i.Held != 1 || i.Back != 1 {
			r.Errorf("got %+v", i)
		}
		s.takes(readmit.NotYet)
		r.decides(s.q, "x", queue.Deliver, "", queue.Delivered)
		if i := r.info(s.q); i.Back != 0 {
			r.Errorf("got %+v", i)
		}
		s.takes(readmit.Returned)
		r.drain(s.q)
	}},
	{"a held job stays held when moved", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9))
		urgent := withPriority(3, "x", q, "b")
		r.acceptJobs(job(q, "a"), urgent, jobOfLane("x", q, "c"))
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
	{"concurrent decisions end each job once", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 900))
		all := numbered("j", 60)
		r.accept(q, all...)
		r.hold("", r.grant(q, 100, all...)...)
		r.crowd(6, func(w int) (n int) {
			for i := range 12 {
				some := all[(5*i+7*w)%56:][:5]
				if _, err := r.e.Decide(
					r.ctx, q, some, []queue.Verdict{queue.Deliver, queue.Bury, queue.Release}[w%3], "",
				); err != nil {
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
