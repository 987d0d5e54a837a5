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
