package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
)

// cancels cancels a job and checks its state afterwards.
func (r *rig) cancels(want queue.State, queueName, id string) {
	r.Helper()
	if got, err := r.e.Cancel(r.ctx, queueName, id); err != nil || got != want {
		r.Fatalf("cancel %s/%s: %v, %v; want %v", queueName, id, got, err, want)
	}
}

var cancelRules = []rule{
	{"a job that waits or is scheduled is cancelled, any other stays as it is", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(8))
		for _, id := range []string{"delivered", "dead", "scheduled", "leased", "waiting", "free"} {
			r.accept(q, id)
		}
		v := r.grant(q, 4, "delivered", "dead", "scheduled", "leased")
		r.deliver(v[0])
		r.settled(queue.Dead, settlement(queue.Bury, v[1]))
		r.fail(time.Hour, v[2])
		for range 2 { // the second time changes nothing
			for id, want := range map[string]queue.State{
				"delivered": queue.Delivered, "dead": queue.Dead, "leased": queue.Leased, "scheduled": queue.Cancelled,
				"waiting": queue.Cancelled,
			} {
				r.cancels(want, q, id)
				r.state(want, q, id)
			}
			r.tallies(q, tally{
				waiting: 1, leased: 1, dead: 1, appended: 6, cancelled: 2, delivered: 1, died: 1, retried: 1,
			})
		}
		r.audit()
		r.clock.Advance(2 * time.Hour)
		r.deliver(v[3])
		r.sameIDs(r.drain(q), "free")
	}},
	{"the lease of a cancelled job is stale", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		r.accept(q, "a", "b")
		v := r.grant(q, 2, "a", "b")
		r.clock.Advance(time.Minute)
		r.cancels(queue.Leased, q, "a") // it ran out, but is not taken back yet
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.grant(q, 9)
		r.cancels(queue.Cancelled, q, "a")
		r.stale(settlement(queue.Deliver, v[0]))
		r.extend(v[0], 0)
		r.state(queue.Cancelled, q, "a")
		if j := r.job(q, "a"); j.Attempts != 1 || j.Reason != "the lease ran out" ||
			!j.EndedAt.Equal(r.clock.Now().Time()) {
			r.Errorf("got %+v", j)
		}
	}},
	{"a job cancelled while waiting stays visible, and stays a duplicate", func(r *rig) {
		q := r.queue("q", "1/m")
		t0 := r.clock.Now()
		costly := job(q, "a")
		costly.Cost = 3
		r.acceptJobs(costly)
		r.clock.Advance(time.Second)
		r.cancels(queue.Cancelled, q, "a")
		r.checkJob(q, "a", seen{state: queue.Cancelled, cost: 3, appended: t0, ended: r.clock.Now()})
		r.duplicate(costly, queue.Cancelled, 0)
		r.outcome(queue.Conflict, job(q, "a"))
		if a := r.offer(costly)[0]; a.Outcome != queue.Duplicate || a.State != queue.Cancelled || a.Ticket != "" {
			r.Errorf("offered again: %+v", a)
		}
		if i := r.info(q); i.Waiting != 0 || !i.OldestWaiting.IsZero() || !i.Next.Equal(r.clock.Now().Time()) {
			r.Errorf(
				"%d waiting, the oldest since %v, the next in %v", i.Waiting, i.OldestWaiting,
				i.Next.Sub(r.clock.Now().Time()),
			)
		}
	}},
	{"a cancelled job frees its place, and the jobs behind it move up", func(r *rig) {
		q := r.queue("q", "1/s", withCapacity(5))
		r.accept(q, "a", "b", "c", "d", "e")
		r.outcome(queue.Full, job(q, "f"))
		t0 := r.clock.Now()
		r.cancels(queue.Cancelled, q, "a")
		r.cancels(queue.Cancelled, q, "c")
		r.accept(q, "f")
		for id, want := range map[string]int64{"b": 1, "d": 2, "e": 3, "f": 4} {
			if j := r.job(q, id); j.Position != want {
				r.Errorf("%s is at %d, want %d", id, j.Position, want)
			}
		}
		// The head leaves at once; the turns of c are still between it and d.
		if j := r.job(q, "b"); instantOf(j.ETA.At) != t0 || !j.ETA.Exact {
			r.Errorf("b departs %+v", j.ETA)
		}
		for i, v := range r.drain(q) {
			if v.ID != []string{"b", "d", "e", "f"}[i] {
				r.Errorf("%s left as number %d", v.ID, i+1)
			}
		}
		if took := r.clock.Now().Sub(t0); took > 3*time.Second+queue.Horizon {
			r.Errorf("cancelled jobs used up slots: four left in %v", took)
		}
	}},
	{"unknown jobs cannot be cancelled", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute))
		r.accept(q, "a", "b")
		r.deliver(r.grant(q, 1, "a")...)
		r.clock.Advance(time.Minute)
		for _, id := range []string{"a", "nobody", "", "a b", "\x00", strings.Repeat("b", 1<<16)} {
			_, err := r.e.Cancel(r.ctx, q, id)
			r.refuses(err, queue.ErrUnknownJob)
		}
		for _, name := range []string{"nobody", "", "a b", "a.b.c"} {
			_, err := r.e.Cancel(r.ctx, name, "b")
			r.refuses(err, queue.ErrUnknownQueue)
		}
		r.state(queue.Waiting, q, "b")
	}},
	{"cancelled jobs are remembered like delivered ones, in number and time", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute), func(s *queue.Spec) { s.Retention.Max = 3 })
		r.accept(q, "a", "b", "c", "d", "e")
		r.deliver(r.grant(q, 1, "a")...)
		for _, id := range []string{"e", "d", "c"} {
			r.clock.Advance(time.Second)
			r.cancels(queue.Cancelled, q, id)
		}
		r.deliver(r.grant(q, 1, "b")...)
		r.reserve(q, 1) // gives the engine an occasion
		r.outcome(queue.Accepted, job(q, "a"))
		r.outcome(queue.Accepted, job(q, "e"))
		r.duplicate(job(q, "d"), queue.Cancelled, 0)
		r.clock.Advance(time.Minute - time.Second - time.Microsecond)
		r.state(queue.Cancelled, q, "d")
		r.clock.Advance(time.Microsecond)
		r.unknown(q, "d")
		other := job(q, "d")
		other.Payload = []byte("other")
		r.outcome(queue.Accepted, other)
		r.state(queue.Cancelled, q, "c")
		if i := r.info(q); i.Cancelled != 3 || i.Dead != 0 || i.Died != 0 {
			r.Errorf("counted %+v", i)
		}
		r.sameIDs(r.drain(q), "a", "e", "d")
	}},
	{"a repeated settlement gets the same answer after a cancel", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		r.accept(q, "a", "b")
		v := r.grant(q, 2, "a", "b")
		r.fail(time.Minute, v[0])
		r.release(v[1])
		r.cancels(queue.Cancelled, q, "a")
		r.cancels(queue.Cancelled, q, "b")
		r.settled(queue.Scheduled, settlement(queue.Fail, v[0]))
		r.settled(queue.Waiting, settlement(queue.Release, v[1]))
		r.stale(settlement(queue.Deliver, v[0]))
		r.stale(settlement(queue.Fail, v[1]))
		if j := r.job(q, "a"); j.State != queue.Cancelled || j.Attempts != 1 || j.Reason != "it failed" {
			r.Errorf("got %+v", j)
		}
		r.tallies(q, tally{appended: 2, cancelled: 2, retried: 1})
	}},
	{"a queue without waiting jobs does not make the watcher look", func(r *rig) {
		q := r.queue("q", "1/m", leased(time.Hour, 8))
		nextIn := func(want time.Duration) {
			r.Helper()
			if res := r.reserveAs("client", q, 9); res.Next != want || len(res.Lost) != 0 {
				r.Errorf("next in %v, lost %v; want %v", res.Next, res.Lost, want)
			}
		}
		r.accept(q, "a", "b", "c")
		r.fail(1500*time.Millisecond, r.grant(q, 1, "a")...)
		nextIn(1500 * time.Millisecond)
		r.cancels(queue.Cancelled, q, "a")
		nextIn(2 * time.Second)
		r.cancels(queue.Cancelled, q, "b")
		r.cancels(queue.Cancelled, q, "c")
		r.clock.Advance(10 * time.Minute)
		nextIn(2 * time.Second)
		r.accept(q, "d") // the ten minutes count as lost for nobody
		r.clock.Advance(time.Second)
		nextIn(2 * time.Second)
		r.state(queue.Leased, q, "d")
	}},
	{"slots lost while other jobs wait stay lost", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b")
		r.clock.Advance(time.Minute)
		r.cancels(queue.Cancelled, q, "a")
		if res := r.reserveAs("client", q, 9); res.Lost[q] != 600 {
			r.Errorf("%d slots lost, want 600", res.Lost[q])
		}
	}},
	{"many cancel and many reserve: a job leaves or is cancelled, never both", func(r *rig) {
		q := r.queue("q", "unlimited")
		list := numbered("j", 300)
		r.accept(q, list...)
		var granted [8]int
		_, _ = r.crowd(8, func(worker int) int {
			number := uint64(0)
			for i := range list {
				if worker%2 == 0 {
					state, err := r.e.Cancel(r.ctx, q, list[(i*7+worker)%len(list)])
					if err != nil || state != queue.Cancelled && state != queue.Leased {
						r.Errorf("cancel: %v, %v", state, err)
					}
					continue
				}
				number++
				res, err := r.e.Reserve(r.ctx, queue.ReserveRequest{
					Partition: r.partition(q), Client: queue.Client{ID: fmt.Sprint("c", worker)}, Number: number,
					Max: 1,
				})
				if err != nil {
					r.Errorf("reserve: %v", err)
				}
				granted[worker] += len(res.Jobs)
			}
			return 0
		})
		gone := 0
		for _, id := range list {
			switch j := r.job(q, id); j.State {
			case queue.Cancelled:
				gone++
			case queue.Leased:
			default:
				r.Errorf("%s is %v", id, j.State)
			}
		}
		left := 0
		for _, n := range granted {
			left += n
		}
		if i := r.info(q); left+gone != len(list) || i.Cancelled != int64(gone) || i.Leased != int64(left) {
			r.Errorf("%d were granted and %d cancelled, of %d: %+v", left, gone, len(list), i)
		}
	}},
}
