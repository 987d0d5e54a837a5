package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
)

// holding returns a rule with only a capacity.
func holding(n int64) queue.LaneRule { return queue.LaneRule{Capacity: n} }

// laneFull appends a job that must be refused because its lane is full.
func (r *rig) laneFull(lane, queueName, id string, want time.Duration) {
	r.Helper()
	if a := r.outcome(queue.LaneFull, jobOfLane(lane, queueName, id)); a.RetryAfter != want ||
		a.State != queue.StateNone || a.Position != 0 || a.Err != nil {
		r.Errorf("%s: refused with %+v, want to come back after %v", id, a, want)
	}
}

var laneCapacityRules = []rule{
	{"waiting, scheduled and leased jobs hold their places in the lane, ended jobs do not", func(r *rig) {
		const ms = time.Millisecond
		q := r.putWithLanes(
			"q", "unlimited", "x1 x2 x3 y1 k1 k2 k3 k4", everyLane(holding(3)), except(laneZ, queue.LaneRule{}),
		)
		r.laneFull(laneX, q, "x4", ms)
		r.appendToLanes(q, "y2 y3 z1 z2 z3 z4 k5")
		r.laneFull(laneY, q, "y4", ms)
		got := map[string]queue.Reservation{}
		for _, v := range r.reserve(q, 20) {
			got[v.ID] = v
		}
		r.laneFull(laneX, q, "x4", ms)
		r.fail(time.Hour, got["x1"])
		r.release(got["x2"])
		r.laneFull(laneX, q, "x4", ms)
		r.deliver(got["x3"])
		r.appendToLanes(q, "x4")
		r.laneFull(laneX, q, "x5", ms)
		r.cancels(queue.Cancelled, q, "x1")
		r.appendToLanes(q, "x5")
		r.laneFull(laneX, q, "x6", ms)
		r.settled(queue.Dead, settlement(queue.Bury, got["y1"]))
		r.appendToLanes(q, "y4")
		r.laneFull(laneY, q, "y5", ms)
		if i := r.info(q); i.Refused != 7 {
			r.Errorf("%d refused", i.Refused)
		}
	}},
	{"a refusal says when to retry", func(r *rig) {
		const ms = time.Millisecond
		q := r.putWithLanes("q", "10/s", "x1 x2", everyLane(holding(2)))
		r.laneFull(laneX, q, "x3", 100*ms) // its lane is the only one with waiting jobs
		r.laneFull(laneX, q, "x3", 100*ms) // each promise is independent
		r.appendToLanes(q, "y1 k1")
		r.laneFull(laneX, q, "x3", 300*ms)
		r.grant(q, 2, "k1")
		r.laneFull(laneX, q, "x3", 200*ms)
		r.delete(q)
		p := r.putWithLanes("g.p", "3/s", "x1", everyLane(holding(1)))
		r.laneFull(laneX, p, "x2", 333_334*time.Microsecond)
		r.delete(p)
		s := r.putWithLanes(
			"g.s", "10/s", "x1 x2 y1", everyLane(queue.LaneRule{Rate: laneRate("1/s").Rate, Capacity: 2}),
		)
		r.laneFull(laneX, s, "x3", 200*ms)
		r.grant(s, 1, "x1")
		r.laneFull(laneX, s, "x3", time.Second)
		r.clock.Advance(850 * ms)
		r.laneFull(laneX, s, "x3", 200*ms)
	}},
	{"a full lane is reported before a full queue, and a known id before both", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "x1 x2 k1", withCapacity(3), everyLane(holding(2)))
		r.laneFull(laneX, q, "x3", time.Millisecond)
		r.outcome(queue.Full, jobOfLane(laneY, q, "y1"))
		r.outcome(queue.Full, job(q, "k2"))
		r.duplicate(jobOfLane(laneX, q, "x2"), queue.Waiting, 2)
		r.outcome(queue.Conflict, jobOfLane(laneX, q, "k1"))
		if i := r.info(q); i.Refused != 3 {
			r.Errorf("%d refused", i.Refused)
		}
	}},
	{"within one call, the jobs that fit are accepted", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(5), everyLane(holding(2)))
		var list []queue.Job
		for _, id := range []string{"x1", "x2", "x3", "y1", "x1", "x4", "y2", "y3", "k1", "k2"} {
			list = append(list, jobOfLane(letters[id[0]], q, id))
		}
		r.outcomes(r.append(list...), queue.Accepted, queue.Accepted, queue.LaneFull, queue.Accepted, queue.Duplicate,
			queue.LaneFull, queue.Accepted,
			queue.LaneFull, queue.Accepted, queue.Full)
	}},
	{"a lowered capacity of lanes drops nothing and accepts nothing until there is room", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "x1 x2 x3 x4", everyLane(holding(4)))
		r.queue(q, "unlimited", everyLane(holding(2)))
		for _, id := range []string{"x1", "x2"} {
			r.laneFull(laneX, q, "x5", time.Millisecond)
			r.deliver(r.grant(q, 1, id)...)
		}
		r.laneFull(laneX, q, "x5", time.Millisecond)
		r.deliver(r.grant(q, 1, "x3")...)
		r.appendToLanes(q, "x5")
		r.queue(q, "unlimited", everyLane(holding(2)), except(laneX, holding(3)))
		r.appendToLanes(q, "x6")
		r.laneFull(laneX, q, "x7", time.Millisecond)
		r.queue(q, "unlimited")
		r.appendToLanes(q, "x7 x8")
		r.queue(q, "unlimited", everyLane(holding(5))) // all jobs count, whenever they were appended
		r.laneFull(laneX, q, "x9", time.Millisecond)
		r.drain(q)
		r.appendToLanes(q, "x10")
	}},
	{"a refusal is not remembered", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "x1", everyLane(holding(1)))
		r.laneFull(laneX, q, "a", time.Millisecond)
		r.acceptJobs(jobOfLane(laneY, q, "a"))
	}},
	{"concurrent callers never fill a lane beyond its capacity", func(r *rig) {
		const lanes, capacity = 5, 20
		q := r.queue("q", "unlimited", everyLane(holding(capacity)))
		accepted, _ := r.crowd(8, func(worker int) (n int) {
			for i := range 20 {
				var list []queue.Job
				for lane := range lanes {
					list = append(
						list, jobOfLane(fmt.Sprint("lane-", lane), q, fmt.Sprintf("w%d-%d-%d", worker, i, lane)),
					)
				}
				a, err := r.e.Append(r.ctx, list)
				if err != nil {
					r.Errorf("append: %v", err)
				}
				for _, a := range a {
					if a.Outcome == queue.Accepted {
						n++
					} else if a.Outcome != queue.LaneFull {
						r.Errorf("%s: %v, %v", a.ID, a.Outcome, a.Err)
					}
				}
			}
			return n
		})
		share := map[string]int64{}
		for _, v := range r.drain(q) {
			share[v.Lane]++
		}
		if accepted != lanes*capacity || len(share) != lanes || jain(share) != 1 {
			r.Errorf("%d accepted, %v", accepted, share)
		}
	}},
}
