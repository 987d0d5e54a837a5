package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// withCapacity limits a queue to a capacity.
func withCapacity(capacity int64) func(*queue.Spec) {
	return func(s *queue.Spec) { s.Capacity = capacity }
}

// checkFull appends a job that must be refused for lack of room.
func (r *rig) checkFull(queueName, id string, want time.Duration) {
	r.Helper()
	if a := r.outcome(queue.Full, job(queueName, id)); a.RetryAfter != want || a.State != queue.StateNone ||
		a.Position != 0 || a.Err != nil {
		r.Errorf("%s: refused with %+v, want to come back after %v", id, a, want)
	}
}

var fullRules = []rule{
	{"waiting, scheduled and leased jobs hold their places, ended jobs do not", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(3))
		r.accept(q, "a", "b", "c")
		r.outcome(queue.Full, job(q, "d"))
		v := r.grant(q, 3, "a", "b", "c")
		r.outcome(queue.Full, job(q, "d"))
		r.fail(time.Hour, v[0])
		r.release(v[1])
		r.outcome(queue.Full, job(q, "d"))
		r.deliver(v[2])
		r.accept(q, "d")
		r.outcome(queue.Full, job(q, "e"))
		w := r.grant(q, 1, "b")
		r.settled(queue.Dead, settlement(queue.Bury, w[0]))
		r.accept(q, "e")
		r.outcome(queue.Full, job(q, "f"))
		if i := r.info(q); i.Size() != 3 || i.Refused != 5 {
			r.Errorf("%d held, %d refused", i.Size(), i.Refused)
		}
	}},
	{"within one call, the jobs that fit are accepted", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(2))
		a := r.append(jobs(q, "a", "b", "c", "a", "d")...)
		want := []queue.AppendOutcome{queue.Accepted, queue.Accepted, queue.Full, queue.Duplicate, queue.Full}
		for i := range a {
			if a[i].Outcome != want[i] {
				r.Errorf("%s: %v, want %v", a[i].ID, a[i].Outcome, want[i])
			}
		}
	}},
	{"refused jobs are promised instants one interval apart", func(r *rig) {
		q := r.queue("q", "10/s", withCapacity(2))
		r.accept(q, "a", "b")
		r.checkFull(q, "c", 1*ms) // the first job could leave now
		r.checkFull(q, "d", 100*ms)
		r.checkFull(q, "e", 200*ms)
		r.checkFull(q, "f", 300*ms)
		r.checkFull(q, "g", 400*ms)
		r.clock.Advance(30 * ms)
		r.checkFull(q, "h", 470*ms)
		r.clock.Advance(10 * time.Second)
		r.checkFull(q, "i", 1*ms)
	}},
	{"the promise counts from the next departure", func(r *rig) {
		q := r.queue("q", "10/s", withCapacity(2))
		r.accept(q, "a", "b")
		r.grant(q, 2, "a")
		r.checkFull(q, "c", 100*time.Millisecond)
		r.checkFull(q, "d", 200*time.Millisecond)
		r.clock.Advance(40 * time.Millisecond)
		r.checkFull(q, "e", 260*time.Millisecond)
	}},
	{"the promise is rounded up", func(r *rig) {
		q := r.queue("q", "3/s", withCapacity(5))
		r.accept(q, "a", "b", "c", "d", "e")
		r.grant(q, 1, "a")
		r.checkFull(q, "x", 333_334*time.Microsecond)
		r.checkFull(q, "y", 666_668*time.Microsecond)
	}},
	{"paused and unlimited queues promise as far as they know", func(r *rig) {
		q, u := r.queue("g.q", "10/s", withCapacity(1)), r.queue("g.u", "unlimited", withCapacity(1))
		r.accept(q, "a")
		r.accept(u, "a")
		r.checkFull(u, "b", 100*time.Millisecond)
		r.checkFull(u, "b", 100*time.Millisecond)
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Reason: "closed"}))
		r.checkFull(q, "b", 30*time.Second)
		r.checkFull(q, "c", 30*time.Second)
		r.check(r.e.Resume(r.ctx, q))
		r.checkFull(q, "b", time.Millisecond)
	}},
	{"callers that return as promised are refused about once each", func(r *rig) {
		const callers = 100
		q := r.queue("q", "14/s", withCapacity(20))
		begin, refusals, left := r.clock.Now(), 0, callers
		due := make([]leaky.Instant, callers) // when each caller returns; 0 once accepted
		for i := range due {
			due[i] = begin
		}
		for end := begin.Add(time.Minute); left > 0 && r.clock.Now() < end; r.clock.Advance(ms) {
			for _, v := range r.reserve(q, queue.MaxReserve) {
				if v.In <= 0 {
					r.deliver(v)
				} else {
					r.release(v)
				}
			}
			for i, at := range due {
				if at == 0 || at > r.clock.Now() {
					continue
				}
				switch a := r.append(job(q, fmt.Sprint("j", i)))[0]; a.Outcome {
				case queue.Accepted:
					due[i], left = 0, left-1
				case queue.Full:
					due[i], refusals = r.clock.Now().Add(a.RetryAfter), refusals+1
				default:
					r.Fatalf("%v", a)
				}
			}
		}
		if left > 0 || refusals > callers*13/10 {
			r.Errorf("%d refusals of %d callers, %d of them not accepted", refusals, callers, left)
		}
	}},
	{"unused promises are taken back", func(r *rig) {
		q := r.queue("q", "10/s", withCapacity(3))
		r.accept(q, "a", "b", "c")
		for i := range 100 {
			r.outcome(queue.Full, job(q, fmt.Sprint("x", i)))
		}
		r.checkFull(q, "last", 10*time.Second)
		for i := range 30 {
			r.clock.Advance(100 * ms)
			r.deliver(r.reserve(q, 1)...)
			if i > 1 { // two places are free
				r.accept(q, fmt.Sprint("new", i))
			}
		}
		r.accept(q, "d", "e")
		if a := r.outcome(queue.Full, job(q, "f")); a.RetryAfter > time.Second {
			r.Errorf("retry after %v", a.RetryAfter)
		}
	}},
	{"promises reach an hour at most, or one interval", func(r *rig) {
		for rate, want := range map[string]time.Duration{"1/s": time.Hour, "1/2h": 2 * time.Hour} {
			q := r.queue("q"+rate[2:], rate, withCapacity(1))
			r.accept(q, "a")
			r.grant(q, 1, "a")
			room := r.outcome(queue.Full, job(q, "b")).RetryAfter
			for range 4000 / queue.MaxReserve {
				r.append(jobs(q, numbered("x", queue.MaxReserve)...)...)
			}
			r.checkFull(q, "c", room+want)
		}
	}},
	{"the promise of a slow and large queue reaches one interval", func(r *rig) {
		const capacity = 5000
		q := r.queue("q", "1/744h", withCapacity(capacity))
		all := jobs(q, numbered("j", capacity)...)
		for i := 0; i < capacity; i += 500 {
			r.acceptJobs(all[i : i+500]...)
		}
		promises := map[time.Duration]bool{}
		refused := jobs(q, numbered("x", 500)...)
		for range capacity / 500 {
			for _, a := range r.append(refused...) {
				if a.Outcome != queue.Full || a.RetryAfter <= 0 || a.RetryAfter > 365*24*time.Hour {
					r.Fatalf("%v, retry after %v", a.Outcome, a.RetryAfter)
				}
				promises[a.RetryAfter] = true
			}
		}
		if len(promises) != 2 { // now, and in 31 days
			r.Errorf("%d different promises", len(promises))
		}
	}},
	{"a refusal is not remembered", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(1))
		r.accept(q, "a")
		r.outcome(queue.Full, job(q, "b"))
		r.deliver(r.grant(q, 1, "a")...)
		j := job(q, "b")
		j.Payload = []byte("something else")
		r.outcome(queue.Accepted, j)
	}},
	{"a lowered capacity drops nothing and accepts nothing until there is room", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(5))
		r.accept(q, "a", "b", "c", "d", "e")
		r.queue(q, "unlimited", withCapacity(2))
		for _, id := range []string{"a", "b", "c"} {
			r.outcome(queue.Full, job(q, "x"))
			r.deliver(r.grant(q, 1, id)...)
		}
		r.outcome(queue.Full, job(q, "x"))
		r.deliver(r.grant(q, 1, "d")...)
		r.outcome(queue.Accepted, job(q, "x"))
		r.outcome(queue.Full, job(q, "y"))
		r.queue(q, "unlimited", withCapacity(3))
		r.outcome(queue.Accepted, job(q, "y"))
		r.sameIDs(r.drain(q), "e", "x", "y")
	}},
}

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
