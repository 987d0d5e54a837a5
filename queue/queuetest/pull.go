package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/queue"
)

// pulled makes a queue a pull queue.
func pulled(s *queue.Spec) { s.Pull = true }

// pulling returns a request for jobs of one queue. Its partition is always 0, since engines ignore it.
func (r *rig) pulling(client, queueName string, most int) queue.ReserveRequest {
	req := r.request(client+"-"+queueName, queueName, most)
	req.Queue, req.Partition = queueName, 0
	return req
}

func (r *rig) pull(client, queueName string, most int, want ...string) queue.Reserved {
	r.Helper()
	res := r.do(r.pulling(client, queueName, most))
	r.sameIDs(res.Jobs, want...)
	return res
}

// refused asks for jobs of a queue, which must fail, and returns the error.
func (r *rig) refused(queueName string) error {
	r.Helper()
	res, err := r.e.Reserve(r.ctx, r.pulling("puller", queueName, 9))
	if err == nil || len(res.Jobs) > 0 {
		r.Fatalf("asked for jobs of %s: %v, %v; want an error", queueName, ids(res.Jobs), err)
	}
	return err
}

func (r *rig) noField(field string, s queue.Spec) {
	r.Helper()
	if _, err := r.e.Put(r.ctx, s, queue.AnyRevision); kind(err) != "field "+field {
		r.Errorf("put %s: %v, want a field error of %s", s.Name, err, field)
	}
}

// awaitQueueWake is awaitWake for the clients of one queue.
func (r *rig) awaitQueueWake(queueName string, trigger func(i int)) {
	r.Helper()
	ear := r.listen(queueName)
	defer ear.cancel()
	for i := range 100 {
		trigger(i)
		for patience := time.After(100 * time.Millisecond); patience != nil; {
			select {
			case w := <-ear.wakeups:
				if w == (queue.Wakeup{Partition: ear.partition, Queue: queueName}) {
					return
				}
				ear.heard = append(ear.heard, w)
			case <-patience:
				patience = nil
			}
		}
	}
	r.Fatalf("the clients of %s were not woken; heard %v", queueName, ear.heard)
}

var pullRules = []rule{
	{"only requests that name a pull queue get its jobs, and no drainer does", func(r *rig) {
		q := r.queue("q", "unlimited", pulled)
		r.accept(q, "a", "b", "c")
		r.waitsFor(causeOnly(cause.Puller), q, "a", "c")
		r.grant(q, 9)
		r.deliver(r.pull("one", q, 2, "a", "b").Jobs...)
		r.deliver(r.pull("two", q, 9, "c").Jobs...)
		r.pull("one", q, 9)
		if i := r.info(q); !i.Spec.Pull || i.Delivered != 3 {
			r.Errorf("got %+v", i)
		}
	}},
	{"a request for one queue gets no jobs of another", func(r *rig) {
		a, b, plain := r.queue(
			"a", "unlimited", pulled,
		), r.queue("b", "unlimited", pulled), r.queue("plain", "unlimited")
		r.accept(a, "a")
		r.accept(b, "b")
		r.accept(plain, "p")
		r.deliver(r.pull("one", b, 9, "b").Jobs...)
		r.pull("one", b, 9)
		r.deliver(r.grant(plain, 9, "p")...)
		r.deliver(r.pull("one", a, 9, "a").Jobs...)
	}},
	{"only pull queues can be named in a request", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		if err := r.refused(q); kind(err) != "field queue" {
			r.Errorf("not a pull queue: %v", err)
		}
		r.refuses(r.refused("nobody"), queue.ErrUnknownQueue)
		r.queue(q, "unlimited", pulled)
		v := r.pull("one", q, 9, "a").Jobs
		r.check(r.e.Delete(r.ctx, q, queue.AnyRevision, true))
		r.refuses(r.refused(q), queue.ErrUnknownQueue)
		r.stale(settlement(queue.Deliver, v[0]))
	}},
	{"a refused request takes back no lease", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Second, 8))
		r.accept(q, "a")
		v := r.grant(q, 9, "a")
		r.clock.Advance(time.Second)
		_ = r.refused(q)
		r.deliver(v...)
	}},
	{"granted jobs are paced within the horizon", func(r *rig) {
		q := r.queue("q", "50/s", pulled)
		r.accept(q, "a", "b", "c", "d", "e")
		res := r.pull("one", q, 9, "a", "b", "c") // at 0, 20 and 40 ms
		for i, v := range res.Jobs {
			if v.In != time.Duration(i)*20*time.Millisecond || v.Lease != queue.DefaultLease || v.Attempt != 1 {
				r.Errorf("job %d: %+v", i, v)
			}
		}
		r.pull("two", q, 9)
		r.clock.Advance(10 * time.Millisecond)
		r.pull("two", q, 9, "d")
	}},
	{"slots count as lost only while nobody asked for the queue", func(r *rig) {
		q := r.queue("q", "10/s", pulled)
		r.accept(q, "a", "b", "c")
		r.pull("one", q, 9, "a")
		r.clock.Advance(400 * time.Millisecond)
		if res := r.pull("one", q, 9, "b"); res.Lost[q] != 3 {
			r.Errorf("lost %v, want 3", res.Lost)
		}
	}},
	{"a request is told when to ask again", func(r *rig) {
		q := r.queue("q", "1/s", pulled, leased(10*time.Second, 8))
		nextIn := func(most int, want time.Duration, ids ...string) []queue.Reservation {
			r.Helper()
			res := r.pull("one", q, most, ids...)
			if res.Next != want || res.Backup != 0 {
				r.Errorf("next in %v and backup %v, want %v and 0", res.Next, res.Backup, want)
			}
			return res.Jobs
		}
		nextIn(9, 2*time.Second)
		r.accept(q, "a", "b")
		r.fail(600*time.Millisecond, nextIn(9, 975*time.Millisecond, "a")...)
		nextIn(9, 600*time.Millisecond) // a is due before b departs
		r.clock.Advance(975 * time.Millisecond)
		r.deliver(nextIn(9, time.Second, "a")...) // b departs half a horizon after that
		r.clock.Advance(time.Second)
		nextIn(9, 2*time.Second, "b")
		r.clock.Advance(9 * time.Second)
		nextIn(9, time.Second+25*time.Millisecond) // the lease runs out
	}},
	{"more is due than was asked for", func(r *rig) {
		q := r.queue("q", "unlimited", pulled)
		r.accept(q, "a", "b")
		if res := r.pull("one", q, 1, "a"); res.Next != 0 {
			r.Errorf("next in %v, want 0", res.Next)
		}
		if res := r.pull("one", q, 1, "b"); res.Next != 2*time.Second {
			r.Errorf("next in %v, want 2s", res.Next)
		}
	}},
	{"clients of a pull queue take no part in the watch", func(r *rig) {
		q, p := r.queue("g.q", "1/s"), r.queue("g", "unlimited")
		r.accept(q, "a", "b")
		for i := range 5 {
			r.do(r.pulling(fmt.Sprint("p", i), r.pullQueueBeside(q), 9))
		}
		r.accept(p, "x")
		if res := r.reserveAs("client", q, 9); len(res.Jobs) != 2 || res.Next != 975*time.Millisecond ||
			res.Backup != 250*time.Millisecond {
			r.Errorf("the watcher: %v, %v, %v", ids(res.Jobs), res.Next, res.Backup)
		}
		d, err := r.e.Drainers(r.ctx)
		r.check(err)
		if len(d.Seen) != 1 || d.Seen[0].ID != "client" {
			r.Errorf("drainers: %+v", d)
		}
	}},
	{"a repeated request is answered as before", func(r *rig) {
		q := r.queue("q", "10/s", pulled)
		r.accept(q, "a", "b")
		req := r.pulling("one", q, 9)
		first := r.do(req)
		r.sameIDs(first.Jobs, "a")
		r.clock.Advance(30 * time.Millisecond)
		again := r.do(req)
		r.sameIDs(again.Jobs, "a")
		if v := again.Jobs[0]; v.Fence != first.Jobs[0].Fence || v.In != -30*time.Millisecond {
			r.Errorf("again: %+v", v)
		}
		// This holds even after the queue has stopped being a pull queue.
		r.queue(q, "10/s")
		r.sameIDs(r.do(req).Jobs, "a")
		r.deliver(first.Jobs...)
		r.sameIDs(r.do(req).Jobs)
		r.check(r.e.Delete(r.ctx, q, queue.AnyRevision, true))
		_, err := r.e.Reserve(r.ctx, req)
		r.refuses(err, queue.ErrUnknownQueue)
	}},
	{"an unsettled lease runs out, and the last attempt ends the job", func(r *rig) {
		q := r.queue("q", "unlimited", pulled, leased(10*time.Second, 2))
		r.accept(q, "a")
		v := r.pull("one", q, 9, "a").Jobs[0]
		r.clock.Advance(6 * time.Second)
		r.extend(v, 10*time.Second)
		r.clock.Advance(10 * time.Second)
		res := r.pull("two", q, 9, "a")
		if !slices.Equal(res.Expired, []string{q}) || res.Jobs[0].Attempt != 2 {
			r.Errorf("taken back %v, granted %+v", res.Expired, res.Jobs)
		}
		r.stale(settlement(queue.Deliver, v))
		r.clock.Advance(10 * time.Second)
		r.pull("two", q, 9)
		r.state(queue.Dead, q, "a")
	}},
	{"any request takes leases back", func(r *rig) {
		q, plain := r.queue("q", "unlimited", pulled, leased(time.Second, 8)), r.pullQueueBeside("q")
		r.queue(plain, "unlimited", leased(time.Second, 8))
		r.accept(q, "a")
		r.accept(plain, "p")
		r.pull("one", q, 9, "a")
		r.grant(plain, 9, "p")
		r.clock.Advance(time.Second)
		if res := r.pull("one", q, 9, "a"); !slices.Equal(sorted(res.Expired), sorted([]string{plain, q})) {
			r.Errorf("taken back: %v", res.Expired)
		}
		r.grant(plain, 9, "p")
		r.clock.Advance(time.Second)
		if res := r.reserveAs("client", q, 9); !slices.Equal(sorted(res.Expired), sorted([]string{plain, q})) {
			r.Errorf("taken back: %v", res.Expired)
		}
		r.pull("one", q, 9, "a")
	}},
	{"a client is told of scheduled and due jobs, and of waiting lanes", func(r *rig) {
		q := r.queue("q", "unlimited", pulled, func(s *queue.Spec) { s.Lanes.Rate = spec("x", "1/s").Rate })
		x, y := job(q, "x"), job(q, "y")
		x.Lane, y.Lane = "l", "l"
		late := job(q, "late")
		late.NotBefore = r.clock.Now().Add(500 * time.Millisecond).Time()
		r.acceptJobs(x, y)
		r.append(late)
		if res := r.pull("one", q, 9, "x"); res.Next != 500*time.Millisecond {
			r.Errorf("next in %v, want 500ms", res.Next)
		}
		r.clock.Advance(500 * time.Millisecond)
		if res := r.pull("one", q, 9, "late"); res.Next != 500*time.Millisecond {
			r.Errorf("next in %v, want 500ms", res.Next)
		}
		r.clock.Advance(500 * time.Millisecond)
		r.pull("one", q, 9, "y")
	}},
	{"a paused pull queue grants nothing", func(r *rig) {
		q := r.queue("q", "unlimited", pulled)
		r.accept(q, "a")
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		if res := r.pull("one", q, 9); res.Next != 2*time.Second {
			r.Errorf("next in %v, want 2s", res.Next)
		}
		r.check(r.e.Resume(r.ctx, q))
		r.pull("one", q, 9, "a")
	}},
	{"a pause that ends by itself counts in the advice", func(r *rig) {
		q := r.queue("q", "unlimited", pulled)
		r.accept(q, "a")
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Until: r.clock.Now().Add(time.Second).Time()}))
		if res := r.pull("one", q, 9); res.Next != time.Second {
			r.Errorf("next in %v, want 1s", res.Next)
		}
		r.clock.Advance(time.Second)
		r.pull("one", q, 9, "a")
	}},
	{"a queue can become a pull queue and stop being one", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b", "c", "d")
		late := job(q, "late")
		late.NotBefore = r.clock.Now().Add(time.Hour).Time()
		r.append(late)
		v := r.grant(q, 9, "a")
		r.queue(q, "10/s", pulled)
		r.clock.Advance(100 * time.Millisecond)
		r.grant(q, 9)
		w := r.pull("one", q, 9, "b").Jobs
		r.deliver(v...) // leases stay valid
		r.queue(q, "10/s")
		r.clock.Advance(100 * time.Millisecond)
		_ = r.refused(q)
		r.deliver(r.grant(q, 9, "c")...)
		r.deliver(w...)
		r.queue(q, "10/s", pulled)
		r.clock.Advance(time.Hour)
		r.deliver(r.pull("one", q, 9, "d").Jobs...)
		r.clock.Advance(100 * time.Millisecond)
		r.deliver(r.pull("one", q, 9, "late").Jobs...)
	}},
	{"a pull queue may be a child, but not a parent", func(r *rig) {
		r.queue("g.child", "1/s", pulled)
		r.noField("pull", spec("g", "1/s", pulled))
		r.queue("g", "1/s")
		r.queue("g.child", "1/s")
		r.noField("pull", spec("g", "1/s", pulled))
		r.queue("p", "1/s", pulled)
		r.noField("name", spec("p.child", "1/s"))
		r.noField("name", spec("p.child", "1/s", pulled))
		r.queue("p", "1/s")
		r.queue("p.child", "1/s")
		r.check(r.e.Delete(r.ctx, "p.child", queue.AnyRevision, true))
		r.queue("p", "1/s", pulled)
		r.queue("pp.child", "1/s")
		r.queue("p-", "1/s")
	}},
	{"an append to an idle pull queue wakes its clients", func(r *rig) {
		q := r.queue("q", "unlimited", pulled)
		r.awaitQueueWake(q, func(i int) {
			r.deliver(r.do(r.pulling("one", q, 9)).Jobs...)
			r.accept(q, fmt.Sprint("j", i))
		})
	}},
	{"so does a release, a resume, a failure that is due, or a lease that ran out", func(r *rig) {
		q := r.queue("q", "unlimited", pulled, leased(time.Second, 1000))
		r.accept(q, "a")
		r.awaitQueueWake(q, func(int) { r.release(r.do(r.pulling("one", q, 9)).Jobs...) })
		r.awaitQueueWake(q, func(int) { r.fail(0, r.do(r.pulling("one", q, 9)).Jobs...) })
		r.awaitQueueWake(q, func(int) {
			r.release(r.do(r.pulling("one", q, 9)).Jobs...)
			r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
			r.pull("one", q, 9)
			r.check(r.e.Resume(r.ctx, q))
		})
		r.awaitQueueWake(q, func(int) {
			r.do(r.pulling("one", q, 9))
			r.clock.Advance(time.Second - time.Microsecond)
			r.pull("two", q, 9)
			r.clock.Advance(time.Microsecond)
			r.reserve(q, 9) // a drainer takes it back
		})
	}},
	{"a raised rate wakes the clients", func(r *rig) {
		q := r.queue("q", "1/h", pulled)
		r.accept(q, numbered("j", 300)...)
		r.awaitQueueWake(q, func(int) {
			r.queue(q, "1/h", pulled)
			r.deliver(r.do(r.pulling("one", q, 9)).Jobs...)
			r.queue(q, "100/s", pulled)
		})
	}},
	{"taking back a lease of another queue wakes that queue's drainers", func(r *rig) {
		plain := r.queue("q", "unlimited", leased(time.Second, 1000))
		q := r.pullQueueBeside(plain)
		r.accept(plain, "a")
		r.awaitWake(plain, "w", func(int) {
			r.watching("w", plain)
			r.clock.Advance(time.Second - time.Microsecond)
			r.reserveAs("w", plain, 9)
			r.reserveAs("w", plain, 9) // learns when the lease runs out
			r.clock.Advance(time.Microsecond)
			r.do(r.pulling("one", q, 9))
		})
	}},
}

// pullQueueBeside makes a pull queue on the partition of another queue and returns its name.
func (r *rig) pullQueueBeside(other string) string {
	r.Helper()
	for i := range 1000 {
		if name := fmt.Sprint("beside", i); r.partition(name) == r.partition(other) {
			return r.queue(name, "unlimited", pulled)
		}
	}
	r.Fatal("no name on the partition of " + other)
	return ""
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }
