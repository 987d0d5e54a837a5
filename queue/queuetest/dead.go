package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// deadQueues returns all queue names with dead jobs, read in pages of two.
func (r *rig) deadQueues() (all []queue.DeadQueue) {
	r.Helper()
	for after := ""; ; {
		page, err := r.e.DeadQueues(r.ctx, after, 2)
		if err != nil || len(page) > 2 {
			r.Fatalf("queues with dead jobs: %v, %v", page, err)
		}
		if all = append(all, page...); len(page) < 2 {
			return all
		}
		after = page[1].Queue
	}
}

// checkDeadQueues compares the queue names with dead jobs: "g.q 2, g.x 1 gone".
func (r *rig) checkDeadQueues(want string) {
	r.Helper()
	got := ""
	for _, d := range r.deadQueues() {
		if got != "" {
			got += ", "
		}
		got += fmt.Sprint(d.Queue, " ", d.Dead)
		if d.Gone {
			got += " gone"
		}
	}
	if got != want {
		r.Errorf("dead jobs of %q, want %q", got, want)
	}
}

func (r *rig) dead(queueName, want string) {
	r.Helper()
	r.lists(queue.ListRequest{Queue: queueName, State: queue.Dead}, want)
}

// sweeps runs the sweeper to its end.
func (r *rig) sweeps(queueName string) {
	r.Helper()
	for range 1000 {
		more, err := r.e.Sweep(r.ctx, r.partition(queueName))
		if r.check(err); !more {
			return
		}
	}
	r.Fatal("the sweeper never ends")
}

func kept(age time.Duration, most int64) func(*queue.Spec) {
	return func(s *queue.Spec) { s.Retention.For, s.Retention.Max = unit.Duration(age), most }
}

// sweptOrNot returns a check that runs twice: without the sweeper and after it.
func sweptOrNot(check func(r *rig, sweep func(queueName string))) func(*rig) {
	return func(r *rig) {
		check(r, func(string) {})
		fresh := *r
		check(&fresh, func(q string) { fresh.sweeps(q) })
	}
}

var deadRules = []rule{
	{"dead jobs outlive their queue", func(r *rig) {
		q := r.queue("g.q", "unlimited", leased(time.Minute, 2))
		r.accept(q, "a")
		t0 := r.clock.Now().Time()
		r.failAs("one", q, "421", queue.Fail, 0)
		r.failAs("two", q, "422", queue.Fail, 0)
		r.buried("no such address", jobOfLane("lane", q, "b"))
		r.accept(q, "c", "d")
		r.deliver(r.grant(q, 1, "c")...)
		before := r.pages(queue.ListRequest{Queue: q, State: queue.Dead}, 9, nil)
		r.delete(q)
		for range 2 {
			r.dead(q, "a b")
			r.checkDeadQueues("g.q 2 gone")
			r.timeline(t0, q, "a", wantAttempt{0, 1, "one@bench", queue.AttemptFailed, "421"}, wantAttempt{
				1, 2, "two@bench", queue.AttemptDied, "422",
			})
			if j := r.job(q, "b"); j.State != queue.Dead || j.Reason != "no such address" || j.Lane != "lane" ||
				j.Attempts != 1 {
				r.Errorf("got %+v", j)
			}
			if after := r.pages(queue.ListRequest{Queue: q, State: queue.Dead}, 9, nil); timelineText(
				after[0].Timeline,
			) != timelineText(before[0].Timeline) ||

				after[1].Reason != before[1].Reason {
				r.Errorf("before %+v\nafter  %+v", before, after)
			}
			for _, id := range []string{"c", "d", "nobody"} {
				_, err := r.e.Job(r.ctx, q, id)
				r.refuses(err, queue.ErrUnknownQueue)
			}
			r.audit()
			r.sweeps(q)
		}
		for _, s := range []queue.State{queue.Waiting, queue.Scheduled, queue.Leased} {
			_, err := r.e.ListJobs(r.ctx, queue.ListRequest{Queue: q, State: s, Limit: 1})
			r.refuses(err, queue.ErrUnknownQueue)
		}
		_, err := r.e.Replay(r.ctx, q, []string{"a"})
		r.refuses(err, queue.ErrUnknownQueue)
		_, err = r.e.Get(r.ctx, q)
		r.refuses(err, queue.ErrUnknownQueue)
		r.outcome(queue.UnknownQueue, job(q, "a"))
		r.dead(q, "a b")
	}},
	{"a queue made again has the dead jobs of its predecessor", sweptOrNot(func(r *rig, sweep func(string)) {
		q := r.queue("g.q", "unlimited", leased(time.Minute, 5))
		r.buried("then", job(q, "a"), jobOfLane("x", q, "b"), withPriority(3, "", q, "c"))
		r.delete(q)
		sweep(q)
		r.queue(q, "unlimited", leased(time.Minute, 5))
		sweep(q)
		r.checkDeadQueues("g.q 3")
		if i := r.info(q); i.Dead != 3 || i.Died != 0 || i.Size() != 0 {
			r.Errorf("got %+v", i)
		}
		r.clock.Advance(time.Second)
		r.buried("now", job(q, "d"))
		r.dead(q, "a b c d")
		r.replays(q, []string{"b", "c", "b", "nobody"}, queue.Replayed, queue.Replayed, queue.NotDead, queue.NotDead)
		if j := r.job(q, "b"); j.State != queue.Waiting || j.Lane != "x" || j.Attempts != 0 || j.Reason != "" {
			r.Errorf("got %+v", j)
		}
		r.dead(q, "a d")
		r.forgets(q, []string{"a", "a"}, true, false)
		r.dead(q, "d")
		got := r.drain(q)
		names := ids(got)
		if slices.Sort(names); !slices.Equal(names, []string{"b", "c"}) || got[0].Payload == nil {
			r.Errorf("left: %+v", got)
		}
		r.delete(q)
		sweep(q)
		r.dead(q, "d")
		r.forgets(q, []string{"d", "d", "nobody"}, true, false, false)
		sweep(q)
		r.checkDeadQueues("")
	})},
	{"a former dead job stays dead when its id is known again", sweptOrNot(func(r *rig, sweep func(string)) {
		q := r.queue("g.q", "unlimited", leased(time.Minute, 5), remember(time.Hour))
		r.buried("then", jobs(q, "waits", "leased", "failed", "delivered", "cancelled")...)
		r.delete(q)
		r.queue(q, "unlimited", leased(time.Minute, 5), remember(time.Hour))
		r.clock.Advance(time.Second)
		r.accept(q, "delivered", "leased", "failed", "waits", "cancelled")
		v := r.grant(q, 3, "delivered", "leased", "failed")
		r.deliver(v[0])
		r.fail(time.Minute, v[2])
		r.cancels(queue.Cancelled, q, "cancelled")
		sweep(q)
		all := []string{"cancelled", "delivered", "failed", "leased", "waits"}
		r.replays(q, all, repeatReplay(queue.NotDead, 5)...)
		r.dead(q, "cancelled delivered failed leased waits")
		for i, s := range []queue.State{
			queue.Cancelled, queue.Delivered, queue.Scheduled, queue.Leased, queue.Waiting,
		} {
			r.state(s, q, all[i])
		}
		// The former job is dropped.
		r.forgets(q, []string{"waits"}, true)
		r.state(queue.Waiting, q, "waits")
		// Of two dead jobs with one id, the later is kept.
		bury := settlement(queue.Bury, v[1])
		bury.Reason = "now"
		r.settled(queue.Dead, bury)
		r.dead(q, "cancelled delivered failed leased")
		if j := r.job(q, "leased"); j.State != queue.Dead || j.Reason != "now" {
			r.Errorf("got %+v", j)
		}
		r.audit()
		r.settled(queue.Dead, bury) // the same answer again
		r.replays(q, []string{"leased"}, queue.Replayed)
		r.deliver(r.grant(q, 2, "waits", "leased")...)
		r.delete(q)
		sweep(q)
		r.dead(q, "cancelled delivered failed")
		r.forgets(q, []string{"cancelled", "delivered", "failed"}, true, true, true)
		sweep(q)
	})},
	{"a former dead job stays dead when its id is deferred", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.buried("then", jobs(q, "x1", "x2")...)
		r.delete(q)
		s := r.overflowOf("q", "unlimited", withCapacity(1))
		s.full("x1", "x2", "x3")
		r.replays(s.q, []string{"x2", "x3"}, queue.NotDead, queue.NotDead)
		r.state(queue.Deferred, s.q, "x2")
		r.dead(s.q, "x1 x2")
	}},
	{"dead jobs keep the retention of their deleted queue", func(r *rig) {
		q := r.queue("g.q", "unlimited", kept(time.Hour, 3))
		r.buried("", jobs(q, "a", "b")...)
		r.clock.Advance(30 * time.Minute)
		r.buried("", jobs(q, "c")...)
		r.queue(q, "unlimited", kept(40*time.Minute, 3))
		r.delete(q)
		r.dead(q, "a b c")
		r.clock.Advance(10*time.Minute - time.Microsecond)
		r.dead(q, "a b c")
		r.clock.Advance(time.Microsecond)
		r.dead(q, "c")
		_, err := r.e.Job(r.ctx, q, "a")
		r.refuses(err, queue.ErrUnknownQueue)
		r.forgets(q, []string{"a"}, false)
		r.checkDeadQueues("g.q 1 gone")
		r.audit()
		r.clock.Advance(30 * time.Minute)
		_, err = r.e.ListJobs(r.ctx, queue.ListRequest{Queue: q, State: queue.Dead, Limit: 1})
		r.refuses(err, queue.ErrUnknownQueue)
		_, err = r.e.Forget(r.ctx, q, []string{"c"})
		r.refuses(err, queue.ErrUnknownQueue)
		r.checkDeadQueues("")
	}},
	{"once the queue is made again, its retention applies", func(r *rig) {
		q := r.queue("g.q", "unlimited", kept(time.Hour, 3))
		r.buried("", jobs(q, "a", "b", "c")...)
		r.delete(q)
		r.clock.Advance(time.Minute)
		r.queue(q, "unlimited", kept(time.Hour, 2))
		r.buried("", job(q, "d"))
		r.info(q)
		r.dead(q, "c d")
		r.checkDeadQueues("g.q 2")
	}},
	{"any reserve forgets expired dead jobs of deleted queues", func(r *rig) {
		other := r.queue("g.other", "unlimited")
		for _, id := range numbered("q", 5) {
			q := r.queue("g."+id, "unlimited", kept(time.Minute, 3))
			r.buried("", jobs(q, "a", "b")...)
			r.delete(q)
		}
		r.clock.Advance(time.Minute)
		for range 20 {
			r.reserveAs("client", other, 1)
			r.sweeps(other)
		}
		if got, err := r.e.Totals(r.ctx); err != nil || got.Dead != 0 {
			r.Errorf("totals: %+v, %v", got, err)
		}
		r.checkDeadQueues("")
	}},
	{"names are listed in order, a page at a time", func(r *rig) {
		want := ""
		for i, id := range numbered("q", 9) {
			q := r.queue("g"+fmt.Sprint(i%3)+"."+id, "unlimited")
			r.buried("", job(q, "a"))
			if i%2 == 0 {
				r.delete(q)
			}
		}
		for i := range 3 {
			for j := i; j < 9; j += 3 {
				if want != "" {
					want += ", "
				}
				want += fmt.Sprintf("g%d.q%05d 1", i, j+1)
				if j%2 == 0 {
					want += " gone"
				}
			}
		}
		r.checkDeadQueues(want)
		if d := r.deadQueues()[0]; instantOf(d.Oldest) != r.clock.Now() {
			r.Errorf("got %+v", d)
		}
		for _, limit := range []int{0, -1} {
			if page, err := r.e.DeadQueues(r.ctx, "", limit); len(page) > 0 || err != nil {
				r.Errorf("%d of them: %v, %v", limit, page, err)
			}
		}
	}},
	{"queues come and go, and no dead job is lost", func(r *rig) {
		want := ""
		for i, id := range numbered("j", 30) {
			q := r.queue("g.q", "unlimited")
			r.buried("", job(q, id))
			r.accept(q, "again")
			if i > 0 {
				want += " "
			}
			want += id
			r.dead(q, want)
			r.delete(q)
			r.dead(q, want)
			if i%4 == 0 {
				r.sweeps(q)
			}
			r.clock.Advance(time.Second)
		}
		r.checkDeadQueues("g.q 30 gone")
		r.queue("g.q", "unlimited")
		all := numbered("j", 30)
		r.replays("g.q", all, repeatReplay(queue.Replayed, 30)...)
		r.sameIDs(r.drain("g.q"), all...)
		r.checkDeadQueues("")
	}},
	{"the sweeper spares an id that ended again later", func(r *rig) {
		q := r.queue("g.q", "unlimited", remember(time.Minute))
		r.accept(q, "a")
		r.deliver(r.grant(q, 1, "a")...)
		r.clock.Advance(time.Minute)
		r.buried("", job(q, "a"))
		r.delete(q)
		r.sweeps(q)
		r.dead(q, "a")
		r.state(queue.Dead, q, "a")
	}},
	{"a deleted queue without dead jobs leaves no name", func(r *rig) {
		q := r.queue("g.q", "unlimited")
		r.buried("", job(q, "a"))
		r.forgets(q, []string{"a"}, true)
		r.delete(q)
		r.checkDeadQueues("")
		_, err := r.e.Forget(r.ctx, q, []string{"a"})
		r.refuses(err, queue.ErrUnknownQueue)
		_, err = r.e.ListJobs(r.ctx, queue.ListRequest{Queue: q, State: queue.Dead, Limit: 1})
		r.refuses(err, queue.ErrUnknownQueue)
	}},
}

// buried appends jobs and makes them dead, all at the same instant.
func (r *rig) buried(reason string, list ...queue.Job) {
	r.Helper()
	r.append(list...)
	var out []queue.Settlement
	for _, v := range r.reserve(list[0].Queue, queue.MaxReserve) {
		s := settlement(queue.Bury, v)
		s.Reason = reason
		out = append(out, s)
	}
	if len(out) != len(list) {
		r.Fatalf("%d of %d jobs were granted", len(out), len(list))
	}
	for _, s := range r.settle(out...) {
		if s.State != queue.Dead {
			r.Fatalf("buried: %+v", s)
		}
	}
}
