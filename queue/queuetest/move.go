package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

var moveRules = []rule{
	{"a queue in all states is restored as it was", func(r *rig) {
		q := r.lively("20/s")
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Reason: "night"}))
		before, info := r.export(q), r.info(q)
		if len(before.jobs) != 126 || before.queue.Held != 122 {
			r.Fatalf("%d jobs exported, %d held", len(before.jobs), before.queue.Held)
		}
		r.move(before)
		after := r.info(q)
		r.sameExport(r.export(q), before)
		if after.Revision < info.Revision {
			r.Errorf("revision %d, was %d", after.Revision, info.Revision)
		}
		if after.Bucket != info.Bucket && r.clock.Now() < info.Bucket.TAT {
			r.Errorf("bucket %+v, was %+v", after.Bucket, info.Bucket)
		}
		for _, id := range []string{"d1", "f1", "f3", "x1", "w000", "w001", "w002", "w119"} {
			r.job(q, id)
		}
	}},
	{"jobs stay counted as throttled and down", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 2)...)
		v := r.reserve(q, 2)
		r.settled(queue.Waiting, queue.Settlement{Lease: lease(v[0]), Verdict: queue.Throttle})
		r.settled(queue.Waiting, queue.Settlement{Lease: lease(v[1]), Verdict: queue.Down})
		r.move(r.export(q))
		if i := r.info(q); i.Throttled != 1 || i.Down != 1 {
			r.Errorf("counted as throttled %d, as down %d", i.Throttled, i.Down)
		}
	}},
	{"moved jobs leave in their original order", func(r *rig) {
		q := r.lively("unlimited")
		r.clock.Advance(10 * time.Minute) // all scheduled jobs are due
		m := r.export(q)
		want := ids(r.drain(q))
		r.move(m)
		if got := ids(r.drain(q)); !slices.Equal(sortedByLane(m, got), sortedByLane(m, want)) {
			r.Errorf("departed\n%v, want\n%v", got, want)
		}
		if i := r.info(q); i.Delivered != int64(2+len(want)) {
			r.Errorf("%d delivered, want %d", i.Delivered, 2+len(want))
		}
	}},
	{"a single lane leaves in the very same order, after the jobs granted before", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, numbered("j", 30)...)
		r.deliver(r.reserve(q, 1)...)
		m := r.export(q)
		last := m.queue.Bucket
		r.move(m)
		v := r.reserve(q, 1)
		r.clock.Advance(100 * time.Millisecond)
		if v = append(v, r.reserve(q, 1)...); len(v) == 0 || v[0].ID != "j00002" || r.departure(v[0]) < last.TAT {
			r.Fatalf("granted %v at %v, want j00002 not before %v", ids(v), r.clock.Now(), last.TAT)
		}
		r.deliver(v...)
		if got := ids(r.drain(q)); got[0] != "j00003" || len(got) != 28 || !slices.IsSorted(got) {
			r.Errorf("departed %v", got)
		}
	}},
	{"an import can be repeated from any point with the same result", func(r *rig) {
		q := r.lively("20/s")
		m := r.export(q)
		r.erase(q)
		r.open(m)
		half := exportedQueue{m.queue, m.jobs[:61]}
		r.fill(half, move.Placed)
		if i := r.info(q); !i.Pause.On() || i.Pause.Reason != move.PauseReason {
			r.Errorf("while it is being filled: %+v", i)
		}
		r.open(m)
		r.fill(half, move.There)
		r.fill(exportedQueue{m.queue, m.jobs[61:]}, move.Placed)
		r.fill(m, move.There)
		r.close(m)
		r.close(m)
		r.sameExport(r.export(q), m)
		if closed, err := r.mover().OpenImport(r.ctx, m.queue, mark); err != nil || !closed {
			r.Errorf("opened again: closed %v, %v", closed, err)
		}
		_, err := r.mover().ImportJobs(r.ctx, q, mark, m.jobs[:1])
		r.refuses(err, move.ErrImport)
		r.erase(q)
		r.open(m) // it is another queue
	}},
	{"only an empty queue that equals the source can be filled", func(r *rig) {
		q := r.queue("q", "20/s")
		r.accept(q, "a", "b")
		m := r.export(q)
		_, err := r.mover().OpenImport(r.ctx, m.queue, mark)
		r.refuses(err, move.ErrImport)
		r.bury(q)
		r.check(err0(r.e.Cancel(r.ctx, q, "b")))
		_, err = r.mover().OpenImport(r.ctx, m.queue, mark)
		r.refuses(err, move.ErrImport) // it has a dead job
		r.erase(q)
		r.put(spec(q, "21/s"))
		_, err = r.mover().OpenImport(r.ctx, m.queue, mark)
		r.refuses(err, move.ErrImport)
		r.put(m.queue.Spec)
		_, err = r.mover().ImportJobs(r.ctx, q, mark, m.jobs)
		r.refuses(err, move.ErrImport) // not opened
		r.refuses(r.mover().CloseImport(r.ctx, m.queue, mark), move.ErrImport)
		r.open(m)
		_, err = r.mover().OpenImport(r.ctx, m.queue, "another")
		r.refuses(err, move.ErrImport)
		_, err = r.mover().ImportJobs(r.ctx, q, "another", m.jobs)
		r.refuses(err, move.ErrImport)
		r.fill(m, move.Placed)
		r.close(m)
		r.sameExport(r.export(q), m)
	}},
	{"jobs appended meanwhile go behind, and count once", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b", "c")
		r.deliver(r.grant(q, 1, "a")...)
		m := r.export(q)
		r.erase(q)
		r.open(m)
		r.accept(q, "new")
		other := job(q, "c")
		other.Payload = []byte("another")
		r.acceptJobs(other)
		out, err := r.mover().ImportJobs(r.ctx, q, mark, m.jobs)
		r.check(err)
		for i, j := range m.jobs {
			want := move.Placed
			if j.ID == "c" {
				want = move.Clashes
			}
			if out[i] != want {
				r.Errorf("%s: %v, want %v", j.ID, out[i], want)
			}
		}
		if got := r.reserve(q, 9); len(got) > 0 {
			r.Errorf("%v departed from a queue that is being filled", ids(got))
		}
		r.close(m)
		if i := r.info(q); i.Appended != 4 || i.Delivered != 1 || i.Size() != 3 {
			r.Errorf("counted %+v", i)
		}
		r.deliver(r.grant(q, 9, "b", "new", "c")...)
	}},
	{"a valid lease costs no attempt, an expired one does", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 2))
		r.accept(q, "a", "b", "c")
		r.fail(0, r.grant(q, 1, "a")...)
		r.grant(q, 2, "a", "b")
		r.clock.Advance(9 * time.Second)
		r.grant(q, 1, "c")
		r.clock.Advance(2 * time.Second)
		m := r.export(q)
		got := map[string]string{}
		for _, j := range m.jobs {
			got[j.ID] = fmt.Sprintf("%v %d %q %d", j.State, j.Attempts, j.Reason, j.Lease)
		}
		want := map[string]string{
			"a": fmt.Sprintf("dead 2 %q %d", "the lease ran out", move.LeaseOver),
			"b": fmt.Sprintf("waiting 1 %q %d", "the lease ran out", move.LeaseOver),
			"c": fmt.Sprintf("waiting 0 %q %d", "", move.LeaseHeld),
		}
		for id := range want {
			if got[id] != want[id] {
				r.Errorf("%s: %s, want %s", id, got[id], want[id])
			}
		}
		m.queue.Held, m.queue.Counts.Died = m.queue.Held-1, m.queue.Counts.Died+1
		r.move(m)
		r.grant(q, 9, "b", "c")
		if i := r.job(q, "b"); i.Attempts != 1 || i.Reason != "the lease ran out" {
			r.Errorf("got %+v", i)
		}
	}},
	{"an import ignores the capacity, and then no job is accepted until there is room", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(5))
		r.accept(q, numbered("j", 5)...)
		m := r.export(q)
		m.queue.Spec.Capacity = 2
		r.move(m)
		if i := r.info(q); i.Size() != 5 || i.Spec.Capacity != 2 {
			r.Errorf("holds %d of %d", i.Size(), i.Spec.Capacity)
		}
		r.outcome(queue.Full, job(q, "more"))
	}},
	{"lanes with a rate keep it", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(queue.LaneRule{Rate: leaky.PerSecond(1)}))
		r.acceptJobs(jobsOfLane("a", q, "a1", "a2")...)
		r.grant(q, 9, "a1")
		m := r.export(q)
		r.move(m)
		at := r.clock.Now()
		if got := r.reserve(q, 9); len(got) != 0 {
			r.Fatalf("%v departed at once: the lane's last departure was forgotten", ids(got))
		}
		v := r.drain(q)
		if len(v) != 2 || r.clock.Now() < at.Add(time.Second) {
			r.Errorf("%v departed by %v", ids(v), r.clock.Now().Sub(at))
		}
	}},
	{"the used part of limits stays used", func(r *rig) {
		q := r.queue("q", "unlimited", func(s *queue.Spec) {
			s.Limits = []queue.Limit{{Quota: queue.Quota{Max: 3, Per: "h"}}, {Rate: leaky.PerSecond(1), Burst: 2}}
		})
		r.accept(q, numbered("j", 6)...)
		r.deliver(r.reserve(q, 9)...)
		m := r.export(q)
		if w := m.queue.Limits; len(w) != 2 || w[0].Window.Used != 2 || w[1].Bucket.TAT == 0 {
			r.Fatalf("exported %+v", w)
		}
		r.check(r.e.Delete(r.ctx, q, queue.AnyRevision, true))
		r.clock.Advance(time.Millisecond)
		r.open(m)
		r.fill(m, move.Placed)
		r.close(m)
		if got := r.export(q).queue.Limits; !slices.Equal(got, m.queue.Limits) {
			r.Errorf("limits are %+v, were %+v", got, m.queue.Limits)
		}
		for range 20 {
			r.deliver(r.reserve(q, 9)...)
			r.clock.Advance(time.Second)
		}
		if i := r.info(q); i.Delivered != 3 {
			r.Errorf("%d left, of a quota of 3", i.Delivered)
		}
	}},
	{"children leave at their parent's rate, from the parent's last departure on", func(r *rig) {
		names := []string{"ses", "ses.a", "ses.b"}
		for _, n := range names {
			r.queue(n, "10/s")
		}
		r.acceptJobs(costing(7, "ses.a", "a1"))
		for _, n := range names {
			r.accept(n, numbered(n[len(n)-1:], 10)...)
		}
		granted := len(r.reserve("ses", 1))
		r.clock.Advance(time.Minute) // the lease has run out
		var all []exportedQueue
		for _, n := range names {
			all = append(all, r.export(n))
		}
		if granted != 1 || all[0].queue.MaxCost != 7 {
			r.Errorf("%d granted, the greatest cost of the group is %d", granted, all[0].queue.MaxCost)
		}
		for _, n := range slices.Backward(names) {
			r.check(r.e.Delete(r.ctx, n, queue.AnyRevision, true))
		}
		for _, m := range all {
			r.open(m)
			r.fill(m, move.Placed)
		}
		if got := r.reserve("ses", 9); len(got) > 0 {
			r.Errorf("%v departed while it was being filled", ids(got))
		}
		for _, m := range all {
			r.close(m)
		}
		if g := r.info("ses").Group; g.Children != 2 || g.Waiting != 31 || g.Members != 3 || g.MaxCost != 7 {
			r.Errorf("the group is %+v", g)
		}
		begin, last, n := r.clock.Now(), r.clock.Now(), 0
		for n < 31 {
			res := r.reserveAs("client", "ses", 9)
			n += len(res.Jobs)
			if len(res.Jobs) > 0 {
				last = r.departure(res.Jobs[len(res.Jobs)-1])
			}
			r.deliver(res.Jobs...)
			r.clock.Advance(max(res.Next, time.Millisecond))
		}
		if took := last.Sub(begin); took != 3600*time.Millisecond {
			r.Errorf("the last of 31 jobs of cost 37 left after %v, want 3.6s", took)
		}
	}},
}

// Rules of moved pull queues: the store does not know their clients, and nobody else takes their jobs.
var movePullRules = []rule{
	{"a moved pull queue stays one, keeps its pace, and its jobs wait for clients", func(r *rig) {
		q := r.queue("q", "10/s", pulled, leased(10*time.Second, 3))
		r.accept(q, "a", "b", "c", "d")
		later := job(q, "later")
		later.NotBefore = r.clock.Now().Add(time.Minute).Time()
		r.schedule(later)
		r.deliver(r.pull("one", q, 1, "a").Jobs...)
		r.clock.Advance(100 * time.Millisecond)
		held := r.pull("one", q, 1, "b").Jobs[0]
		m := r.export(q)
		if !m.queue.Spec.Pull {
			r.Errorf("exported %+v", m.queue.Spec)
		}
		r.move(m)
		r.waitsFor(causeOnly(cause.Rate), q, "b")
		r.pull("two", q, 9) // b left just now
		r.clock.Advance(100 * time.Millisecond)
		r.grant(q, 9) // no drainer gets them
		r.waitsFor(causeOnly(cause.Puller), q, "b")
		again := r.pull("two", q, 1, "b").Jobs[0]
		if again.Attempt != 1 {
			r.Errorf("attempt %d of what was leased when it was exported", again.Attempt)
		}
		if s := r.settle(settlement(queue.Deliver, held))[0]; !s.Stale {
			r.Errorf("a lease of the other store is accepted: %+v", s)
		}
		r.deliver(again)
		r.clock.Advance(time.Minute)
		r.deliver(r.pull("two", q, 1, "c").Jobs...)
		r.clock.Advance(time.Minute)
		r.deliver(r.pull("two", q, 1, "d").Jobs...)
		r.clock.Advance(time.Minute)
		r.deliver(r.pull("two", q, 1, "later").Jobs...)
		if i := r.info(q); !i.Spec.Pull || i.Delivered != 5 || i.Size() != 0 {
			r.Errorf("got %+v", i)
		}
	}},
	{"an import wakes the clients of the queue", func(r *rig) {
		q := r.queue("q", "unlimited", pulled)
		r.accept(q, "a")
		m := r.export(q)
		r.awaitQueueWake(q, func(int) {
			r.erase(q)
			r.queue(q, "unlimited", pulled)
			r.pull("one", q, 9)
			r.open(m)
			r.fill(m, move.Placed)
			r.close(m)
		})
		r.pull("one", q, 9, "a")
	}},
	{"only a pull queue can import a pull queue", func(r *rig) {
		q := r.queue("q", "unlimited", pulled)
		r.accept(q, "a")
		m := r.export(q)
		r.erase(q)
		r.queue(q, "unlimited")
		if _, err := r.mover().OpenImport(r.ctx, m.queue, mark); err == nil {
			r.Error("it was opened into a drainers' queue")
		}
	}},
}
