package queuetest

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/queue"
)

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
