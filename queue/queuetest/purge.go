package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

// purges runs a purge to its end, limit jobs a call, and calls between after each call.
func (r *rig) purges(req queue.PurgeRequest, limit int, want int64, between func()) {
	r.Helper()
	req.Limit = limit
	jobs := int64(0)
	for range 10_000 {
		p, err := r.e.Purge(r.ctx, req)
		if err != nil || p.Jobs < 0 || p.Jobs > int64(limit) {
			r.Fatalf("purge %+v: %+v, %v", req, p, err)
		}
		jobs += p.Jobs
		if req.After = p.Next; p.Next == "" {
			if jobs != want {
				r.Errorf("purge of %v of %s: %d jobs, want %d", req.State, req.Queue, jobs, want)
			}
			return
		}
		if between != nil {
			between()
		}
	}
	r.Fatalf("purge %+v: it never ends", req)
}

var purgeRules = []rule{
	{"a purge cancels all waiting jobs", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(20))
		r.accept(q, "leased")
		v := r.reserve(q, 1)
		r.acceptJobs(
			jobOfLane("x", q, "x1"), job(q, "n1"), withPriority(5, "x", q, "x2"), jobOfLane("y", q, "y1"), job(q, "n2"),
		)
		r.schedule(later(r.clock.Now().Add(time.Hour), q, "later"))
		r.purges(queue.PurgeRequest{Queue: q, State: queue.Waiting}, 2, 5, nil)
		for _, id := range []string{"x1", "x2", "n1", "n2", "y1"} {
			r.state(queue.Cancelled, q, id)
		}
		r.tallies(q, tally{scheduled: 1, leased: 1, appended: 7, cancelled: 5})
		r.lanes(q, 0)
		r.audit()
		r.deliver(v...)
		r.clock.Advance(time.Hour)
		r.sameIDs(r.drain(q), "later")
		r.duplicate(jobOfLane("x", q, "x1"), queue.Cancelled, 0)
	}},
	{"the oldest turns of each lane go first", func(r *rig) {
		q := r.queue("q", "unlimited")
		lane := "x"
		r.acceptJobs(
			jobOfLane(lane, q, "a"), jobOfLane(lane, q, "b"), withPriority(9, lane, q, "c"),
			withPriority(1, lane, q, "d"), jobOfLane(lane, q, "e"),
		)
		req := queue.PurgeRequest{Queue: q, State: queue.Waiting, Lane: &lane, Limit: 3}
		p, err := r.e.Purge(r.ctx, req)
		if err != nil || p.Jobs != 3 || p.Next == "" {
			r.Fatalf("%+v, %v", p, err)
		}
		r.sameIDs(r.drain(q), "b", "e")
	}},
	{"jobs appended after the first call are left alone, whatever their priority", func(r *rig) {
		q := r.queue("q", "unlimited")
		for _, lane := range []string{"", "x", "y"} {
			for i := range 4 {
				r.acceptJobs(withPriority(i%2, lane, q, fmt.Sprintf("old-%s%d", lane, i)))
			}
		}
		n := 0
		r.purges(queue.PurgeRequest{Queue: q, State: queue.Waiting}, 3, 12, func() {
			n++
			for i, lane := range []string{"", "x", "y", fmt.Sprint("new-", n)} {
				r.acceptJobs(withPriority(3*i, lane, q, fmt.Sprintf("new-%d-%d", n, i)))
			}
		})
		if i := r.info(q); i.Waiting != int64(4*n) || i.Cancelled != 12 || n < 3 {
			r.Errorf("after %d pauses: %d wait, %d cancelled", n, i.Waiting, i.Cancelled)
		}
		for _, v := range r.drain(q) {
			if !strings.HasPrefix(v.ID, "new-") {
				r.Errorf("%s was left", v.ID)
			}
		}
	}},
	{"a job released during the purge counts as appended before it", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b", "c", "d")
		v := r.grant(q, 1, "a")
		r.purges(queue.PurgeRequest{Queue: q, State: queue.Waiting}, 1, 4, func() {
			if len(v) > 0 {
				r.release(v...)
				v = nil
			}
		})
		r.tallies(q, tally{appended: 4, cancelled: 4})
	}},
	{"a purge can cover only one lane", func(r *rig) {
		q := r.queue("q", "unlimited", func(s *queue.Spec) { s.Lanes.Capacity = 3 })
		for lane, want := range map[string]int64{"": 3, "x": 3, "nobody": 0} {
			for _, l := range []string{"", "x", "y"} {
				for i := range 3 {
					r.append(jobOfLane(l, q, fmt.Sprintf("%s-%s-%d", lane, l, i)))
				}
			}
			r.purges(queue.PurgeRequest{Queue: q, State: queue.Waiting, Lane: &lane}, 2, want, nil)
			r.lists(queue.ListRequest{Queue: q, State: queue.Waiting, Lane: &lane}, "")
			if lane == "x" {
				r.acceptJobs(jobsOfLane("x", q, "again-1", "again-2", "again-3")...) // its places are free
				r.outcome(queue.LaneFull, jobOfLane("x", q, "again-4"))
			}
			r.purges(queue.PurgeRequest{Queue: q, State: queue.Waiting}, 100, r.info(q).Waiting, nil)
		}
	}},
	{"a purge cancels scheduled jobs", func(r *rig) {
		q := r.queue("q", "unlimited", mostScheduled(10))
		at := r.clock.Now().Add(time.Hour)
		r.accept(q, "failed", "waits")
		r.fail(time.Minute, r.grant(q, 1, "failed")...)
		for i := range 6 {
			j := later(at, q, fmt.Sprint("later-", i))
			j.Lane, j.Priority = fmt.Sprint("lane-", i%2), i
			r.schedule(j)
		}
		n := 0
		r.purges(queue.PurgeRequest{Queue: q, State: queue.Scheduled}, 2, 7, func() {
			n++
			r.schedule(later(at.Add(time.Minute), q, fmt.Sprint("new-", n)))
		})
		r.state(queue.Cancelled, q, "failed")
		if j := r.job(q, "failed"); j.Attempts != 1 || j.Reason != "it failed" {
			r.Errorf("got %+v", j)
		}
		r.tallies(q, tally{waiting: 1, scheduled: int64(n), appended: 8 + int64(n), cancelled: 7, retried: 1})
		r.audit()
	}},
	{"purging a job in flight lets its lane continue", func(r *rig) {
		q := r.queue("q", "unlimited", ordered)
		r.acceptJobs(jobsOfLane("x", q, "a", "b")...)
		r.fail(time.Hour, r.grant(q, 9, "a")...)
		r.grant(q, 9)
		r.purges(queue.PurgeRequest{Queue: q, State: queue.Scheduled}, 500, 1, nil)
		r.deliver(r.grant(q, 9, "b")...)
	}},
	{"a purge makes room, also for deferred jobs", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4), lowWater(0.75))
		s.full("a", "b")
		r.purges(queue.PurgeRequest{Queue: s.q, State: queue.Waiting}, 500, 4, nil)
		s.takes(readmit.Returned, readmit.Returned)
		r.purges(queue.PurgeRequest{Queue: s.q, State: queue.Waiting}, 1, 2, nil)
		r.tallies(s.q, tally{appended: 6, setAside: 2, returned: 2, cancelled: 6})
		if res := r.checkReadmit(queue.ReadmitRequest{
			Queue: s.q, Holder: "holder", Overflow: "overflow",
		}); res.Room != 3 {
			r.Errorf("room for %d, want 3", res.Room)
		}
	}},
	{"many jobs are purged in many calls", func(r *rig) {
		q := r.queue("q", "1/s", withCapacity(5000))
		var list []queue.Job
		for i := range 2000 {
			list = append(list, jobOfLane(fmt.Sprint("lane-", i%700), q, fmt.Sprint("j", i)))
		}
		for i := 0; i < len(list); i += 500 {
			r.acceptJobs(list[i : i+500]...)
		}
		r.accept(q, numbered("n", 1000)...)
		r.purges(queue.PurgeRequest{Queue: q, State: queue.Waiting}, queue.MaxPage, 3000, nil)
		r.tallies(q, tally{appended: 3000, cancelled: 3000})
		r.lanes(q, 0)
	}},
	{"an invalid purge is refused", func(r *rig) {
		q, lane := r.queue("q", "unlimited"), "lane"
		for _, c := range []struct {
			field string
			req   queue.PurgeRequest
		}{
			{"state", queue.PurgeRequest{Queue: q, Limit: 1}},
			{"state", queue.PurgeRequest{Queue: q, State: queue.Leased, Limit: 1}},
			{"state", queue.PurgeRequest{Queue: q, State: queue.Dead, Limit: 1}},
			{"limit", queue.PurgeRequest{Queue: q, State: queue.Waiting}},
			{"limit", queue.PurgeRequest{Queue: q, State: queue.Waiting, Limit: queue.MaxPage + 1}},
			{"lane", queue.PurgeRequest{Queue: q, State: queue.Scheduled, Lane: &lane, Limit: 1}},
		} {
			_, err := r.e.Purge(r.ctx, c.req)
			r.notAField(err, c.field)
		}
		_, err := r.e.Purge(r.ctx, queue.PurgeRequest{Queue: "nobody", State: queue.Waiting, Limit: 1})
		r.refuses(err, queue.ErrUnknownQueue)
	}},
}
