package queuetest

import (
	"errors"
	"time"

	"github.com/penstock/penstock/queue"
)

func (r *rig) delete(queueName string) {
	r.Helper()
	r.former[queueName] = true
	r.check(r.e.Delete(r.ctx, queueName, queue.AnyRevision, true))
}

var deleteRules = []rule{
	{"a queue with jobs is deleted only with force", func(r *rig) {
		q := r.queue("q", "unlimited")
		refused := func() {
			r.Helper()
			r.refuses(r.e.Delete(r.ctx, q, queue.AnyRevision, false), queue.ErrNotEmpty)
		}
		r.accept(q, "a")
		refused()
		v := r.grant(q, 1, "a")
		refused()
		r.fail(time.Minute, v...)
		refused()
		r.clock.Advance(time.Minute)
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "a")[0]))
		r.check(r.e.Delete(r.ctx, q, queue.AnyRevision, false)) // ended jobs do not count
		_, err := r.e.Get(r.ctx, q)
		r.refuses(err, queue.ErrUnknownQueue)
	}},
	{"deleting needs the expected revision", func(r *rig) {
		q := r.queue("q", "unlimited")
		rev := r.info(q).Revision
		r.refuses(r.e.Delete(r.ctx, q, rev+1, true), queue.ErrRevision)
		r.refuses(r.e.Delete(r.ctx, q, 0, true), queue.ErrRevision)
		r.info(q)
		r.check(r.e.Delete(r.ctx, q, rev, false))
		r.refuses(r.e.Delete(r.ctx, q, rev, false), queue.ErrUnknownQueue)
	}},
	{"a forced delete removes all of the queue's jobs", func(r *rig) {
		other, q := r.queue("g.other", "unlimited"), r.queue("g.q", "unlimited")
		r.accept(other, "a")
		r.accept(q, "a", "b", "c", "d", "e")
		v := r.grant(q, 5, "a", "a", "b", "c", "d")
		r.deliver(v[0], v[1])
		r.settled(queue.Dead, settlement(queue.Bury, v[2]))
		r.fail(time.Hour, v[3])
		r.delete(q)
		_, err := r.e.Get(r.ctx, q)
		r.refuses(err, queue.ErrUnknownQueue)
		_, err = r.e.Job(r.ctx, q, "e")
		r.refuses(err, queue.ErrUnknownQueue)
		r.outcome(queue.UnknownQueue, job(q, "a"))
		r.stale(settlement(queue.Deliver, v[4]))
		r.extend(v[4], 0)
		r.clock.Advance(2 * time.Hour)
		res := r.reserveAs("client", q, 9)
		if len(res.Jobs) != 0 || len(res.Expired) != 0 {
			r.Errorf("after all, %v departed and %v ran out", ids(res.Jobs), res.Expired)
		}
		if i := r.info(other); i.Delivered != 1 {
			r.Errorf("the neighbor: %+v", i)
		}
	}},
	{"a queue made again is a new queue", func(r *rig) {
		q := r.queue("q", "unlimited")
		rev := r.info(q).Revision
		r.accept(q, "a", "b", "c")
		v := r.grant(q, 2, "a", "b")
		r.deliver(v[0])
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Reason: "x"}))
		r.delete(q)
		if res := r.put(spec(q, "unlimited")); !res.Created || res.Revision <= rev {
			r.Errorf("made again: %+v, the old one was at %d", res, rev)
		}
		if i := r.info(q); i.Appended != 0 || i.Size() != 0 || i.Delivered != 0 || i.Pause.On() || len(i.Errors) != 0 {
			r.Errorf("it remembers %+v", i)
		}
		_, err := r.e.Job(r.ctx, q, "a")
		r.refuses(err, queue.ErrUnknownJob)
		a := r.accept(q, "a", "b", "c")
		if a[0].Position != 1 {
			r.Errorf("position %d", a[0].Position)
		}
		r.stale(settlement(queue.Deliver, v[1])) // of the old queue
		w := r.grant(q, 9, "a", "b", "c")
		r.stale(settlement(queue.Deliver, v[1]))
		r.deliver(w...)
	}},
	{"deleting and making a queue again does not get around its rate", func(r *rig) {
		s := spec("q", "1/m", func(s *queue.Spec) { s.Burst = 2 })
		r.put(s)
		m := mirrorOf(s)
		for range 4 {
			r.accept(s.Name, "a", "b", "c")
			got := r.reserve(s.Name, 9)
			r.departs(m, got, true)
			r.deliver(got...)
			r.delete(s.Name)
			r.clock.Advance(7 * time.Second)
			r.put(s)
			r.clock.Advance(2 * time.Second)
		}
		r.accept(s.Name, "a", "b", "c")
		r.follow(m, s.Name, 3)
	}},
	{"nor does making it again at a lower rate get around the burst", func(r *rig) {
		q := r.queue("q", "10/s", func(s *queue.Spec) { s.Burst = 10 })
		r.accept(q, numbered("a", 20)...)
		if got := r.reserve(q, 20); len(got) != 10 {
			r.Fatalf("%d of a burst of 10", len(got))
		}
		r.delete(q)
		r.put(spec(q, "1/s", func(s *queue.Spec) { s.Burst = 10 }))
		r.accept(q, numbered("b", 20)...)
		if got := r.reserve(q, 20); len(got) != 0 {
			r.Errorf("%d more at once", len(got))
		}
	}},
	{"a queue made again once its pace is over has its whole burst", sweptOrNot(func(r *rig, sweep func(string)) {
		q := r.queue("q", "10/s")
		r.accept(q, "a")
		r.deliver(r.grant(q, 9, "a")...)
		r.delete(q)
		r.clock.Advance(time.Second)
		sweep(q)
		r.put(spec(q, "1/h", func(s *queue.Spec) { s.Burst = 2 }))
		r.accept(q, "b", "c", "d")
		r.deliver(r.grant(q, 9, "b", "c")...)
		r.delete(q)
		r.clock.Advance(3 * time.Hour)
	})},
	{"a put that expects the revision of the deleted queue is refused", func(r *rig) {
		s := spec("q", "1/m")
		rev := r.put(s).Revision
		r.accept(s.Name, "a", "b")
		r.deliver(r.grant(s.Name, 9, "a")...)
		t0 := r.clock.Now()
		r.delete(s.Name)
		res, err := r.e.Put(r.ctx, s, rev)
		r.refuses(err, queue.ErrRevision)
		if res != (queue.PutResult{}) {
			r.Errorf("no such queue: %+v", res)
		}
		res, err = r.e.Put(r.ctx, s, 0)
		if r.check(err); !res.Created || !res.Changed || res.Revision <= rev {
			r.Errorf("made again: %+v, the old one was at %d", res, rev)
		}
		now := res.Revision
		s.Capacity = 7
		for _, expect := range []int64{0, rev} {
			res, err = r.e.Put(r.ctx, s, expect)
			r.refuses(err, queue.ErrRevision)
			if res != (queue.PutResult{Revision: now}) {
				r.Errorf("expecting %d: %+v, the queue is at %d", expect, res, now)
			}
		}
		r.accept(s.Name, "a")
		r.clock.Set(t0.Add(time.Minute - queue.Horizon - time.Microsecond))
		r.grant(s.Name, 9) // the pace is kept throughout
		r.clock.Set(t0.Add(time.Minute))
		r.grant(s.Name, 9, "a")
	}},
	{"a remainder of the pace is rounded up", func(r *rig) {
		q := r.queue("q", "3/s")
		r.accept(q, "a")
		r.deliver(r.grant(q, 9, "a")...)
		t0 := r.clock.Now()
		r.delete(q)
		r.queue(q, "3/s")
		r.accept(q, "a")
		r.clock.Set(t0.Add(300 * time.Millisecond))
		if v := r.grant(q, 9, "a"); r.departure(v[0]) != t0.Add(333_334*time.Microsecond) {
			r.Errorf("departs %v after the last one", r.departure(v[0]).Sub(t0))
		}
	}},
	{"the sweeper frees the rest, a part at a time", func(r *rig) {
		other, q := r.queue("g.other", "unlimited"), r.queue("g.q", "unlimited")
		r.accept(other, "keep")
		r.accept(q, numbered("j", 3000)...)
		r.grant(q, 1, "keep")
		r.deliver(r.reserve(q, 400)...)
		r.delete(q)
		r.queue(q, "unlimited")
		r.accept(q, "j00001")
		p := r.partition(q)
		calls := 0
		for more := true; more; calls++ {
			var err error
			more, err = r.e.Sweep(r.ctx, p)
			r.check(err)
			if calls > 1000 {
				r.Fatal("the sweeper never ends")
			}
		}
		if res := r.reserveAs("client", q, 9); res.Garbage {
			r.Error("the sweeper has finished, and yet there is garbage")
		} else {
			r.sameIDs(res.Jobs, "j00001")
			r.deliver(res.Jobs...)
		}
		if more, err := r.e.Sweep(r.ctx, p); more || err != nil {
			r.Errorf("again: %v, %v", more, err)
		}
		r.state(queue.Leased, other, "keep")
		if got, err := r.e.Totals(r.ctx); err != nil || got != (queue.Totals{Queues: 2, Leased: 1}) {
			r.Errorf("totals: %+v, %v", got, err)
		}
	}},
	{"a queue can be made and deleted again and again", func(r *rig) {
		last := int64(0)
		for range 30 {
			q := r.queue("q", "unlimited")
			r.accept(q, "a", "b")
			r.grant(q, 1, "a")
			i := r.info(q)
			if i.Revision <= last {
				r.Fatalf("revision %d after %d", i.Revision, last)
			}
			last = i.Revision
			r.delete(q)
			if _, err := r.e.Get(r.ctx, q); !errors.Is(err, queue.ErrUnknownQueue) {
				r.Fatal(err)
			}
			r.clock.Advance(time.Second)
		}
	}},
}
