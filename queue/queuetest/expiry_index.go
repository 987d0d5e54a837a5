package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
)

// looksIn checks when the watcher of a queue's partition is told to ask again.
func (r *rig) looksIn(queueName string, want time.Duration) {
	r.Helper()
	if res := r.reserveAs("client", queueName, 9); res.Next != want || len(res.Jobs) > 0 {
		r.Errorf("granted %v, next in %v; want %v", ids(res.Jobs), res.Next, want)
	}
}

// stopped makes a paused queue.
func (r *rig) stopped(name string, change ...func(*queue.Spec)) string {
	r.Helper()
	r.queue(name, "unlimited", change...)
	r.check(r.e.Pause(r.ctx, name, queue.Pause{}))
	return name
}

var expiryIndexRules = []rule{
	{"the watcher is told when the first job expires, even if that is soon", func(r *rig) {
		q := r.stopped("q")
		t0 := r.clock.Now()
		const ms = time.Millisecond
		for i, after := range []time.Duration{1990 * ms, 1000 * ms, 1500 * ms, 3000 * ms, 1005 * ms} {
			r.acceptJobs(expiringJob(t0.Add(after), q, fmt.Sprint("e", i)))
		}
		r.accept(q, "a")
		r.looksIn(q, 1000*ms)
		r.clock.Advance(975 * ms)
		r.looksIn(q, 25*ms)
		r.clock.Advance(10 * ms)
		r.looksIn(q, 25*ms) // two jobs expire earlier: they end together
		r.clock.Advance(25 * ms)
		r.looksIn(q, 490*ms)
		r.tallies(q, tally{waiting: 4, appended: 6, timedOut: 2})
		r.clock.Set(t0.Add(1990 * ms))
		r.looksIn(q, 1010*ms)
		r.clock.Advance(1010 * ms)
		r.looksIn(q, 2*time.Second)
		r.tallies(q, tally{waiting: 1, appended: 6, timedOut: 5})
	}},
	{"a client of a pull queue is told so too, whatever the queue of the job", func(r *rig) {
		q := r.stopped("q")
		beside := r.pullQueueBeside(q)
		r.acceptJobs(expiringJob(r.clock.Now().Add(time.Second), q, "e"))
		if res := r.pull("puller", beside, 9); res.Next != time.Second {
			r.Errorf("next in %v", res.Next)
		}
		r.clock.Advance(time.Second)
		if res := r.pull("puller", beside, 9); res.Next != 2*time.Second {
			r.Errorf("next in %v", res.Next)
		}
		r.state(queue.Expired, q, "e")
	}},
	{"a departed job does not make the watcher look", func(r *rig) {
		for i, tt := range []struct {
			what string
			gone func(q string)
		}{
			{"leased", func(q string) { r.check(r.e.Resume(r.ctx, q)); r.grant(q, 1, "e") }},
			{"delivered", func(q string) { r.check(r.e.Resume(r.ctx, q)); r.deliver(r.grant(q, 1, "e")...) }},
			{"dead", func(q string) {
				r.check(r.e.Resume(r.ctx, q))
				r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "e")[0]))
			}},
			{"cancelled", func(q string) { r.cancels(queue.Cancelled, q, "e") }},
			{"cancelled while it backs off", func(q string) {
				r.check(r.e.Resume(r.ctx, q))
				r.fails(q, "e")
				r.cancels(queue.Cancelled, q, "e")
			}},
			{"purged", func(q string) { r.purges(queue.PurgeRequest{Queue: q, State: queue.Waiting}, 9, 1, nil) }},
			{"purged while it backs off", func(q string) {
				r.check(r.e.Resume(r.ctx, q))
				r.fails(q, "e")
				r.purges(queue.PurgeRequest{Queue: q, State: queue.Scheduled}, 9, 1, nil)
			}},
			{"deleted", func(q string) { r.delete(q) }},
			{"deleted, and its queue made again", func(q string) { r.delete(q); r.queue(q, "unlimited") }},
		} {
			q := r.stopped(fmt.Sprint("g.q", i))
			r.acceptJobs(expiringJob(r.clock.Now().Add(time.Second), q, "e"))
			r.looksIn(q, time.Second)
			tt.gone(q)
			res := r.reserveAs("client", q, 9)
			if res.Next != 2*time.Second {
				r.Errorf("%s: next in %v", tt.what, res.Next)
			}
			r.clock.Advance(time.Second)
			r.reserve(q, 9)
			r.sweeps(q)
			if i, err := r.e.Get(r.ctx, q); err == nil && i.TimedOut != 0 {
				r.Errorf("%s: %d timed out", tt.what, i.TimedOut)
			}
		}
	}},
	{"a job that came back makes the watcher look again", func(r *rig) {
		for i, tt := range []struct {
			what string
			back func(v queue.Reservation)
		}{
			{"released", func(v queue.Reservation) { r.release(v) }},
			{"failed", func(v queue.Reservation) { r.fail(time.Hour, v) }},
			{"its lease ran out", func(queue.Reservation) { r.clock.Advance(time.Second) }},
			{"replayed", func(v queue.Reservation) {
				r.settled(queue.Dead, settlement(queue.Bury, v))
				r.replays(v.Queue, []string{v.ID}, queue.Replayed)
			}},
			{"moved", func(v queue.Reservation) {
				r.release(v)
				r.move(r.export(v.Queue))
			}},
		} {
			q := r.queue(fmt.Sprint("g.q", i), "unlimited", leased(time.Second, 3))
			t0 := r.clock.Now()
			r.acceptJobs(expiringJob(t0.Add(2500*time.Millisecond), q, "e"))
			v := r.grant(q, 1, "e")[0]
			r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
			tt.back(v)
			r.clock.Set(t0.Add(time.Second))
			r.looksIn(q, 1500*time.Millisecond)
			r.clock.Advance(1500 * time.Millisecond)
			r.looksIn(q, 2*time.Second)
			r.state(queue.Expired, q, "e")
		}
	}},
	{"an append that expires before the watcher's next look wakes the watcher", func(r *rig) {
		q := r.stopped("q")
		r.awaitWake(q, "w", func(i int) {
			r.watching("w", q)
			r.acceptJobs(expiringJob(r.clock.Now().Add(time.Second), q, fmt.Sprint("e", i)))
		})
	}},
	{"so does an append that is scheduled or in a pull queue", func(r *rig) {
		q := r.stopped("q")
		beside := r.pullQueueBeside(q)
		r.check(r.e.Pause(r.ctx, beside, queue.Pause{}))
		r.awaitWake(q, "w", func(i int) {
			r.watching("w", q)
			r.acceptJobs(expiringJob(r.clock.Now().Add(time.Second), beside, fmt.Sprint("e", i)))
		})
		r.awaitWake(q, "w", func(i int) {
			r.watching("w", q)
			j := expiringJob(r.clock.Now().Add(time.Second), q, fmt.Sprint("s", i))
			j.NotBefore = r.clock.Now().Add(500 * time.Millisecond).Time()
			r.schedule(j)
		})
	}},
	{"so does a job that comes back", func(r *rig) {
		for k, back := range []func(v queue.Reservation){
			func(v queue.Reservation) { r.release(v) },
			func(v queue.Reservation) { r.fail(time.Hour, v) },
		} {
			q := r.queue(fmt.Sprint("g.q", k), "unlimited", leased(time.Hour, 1000))
			r.awaitWake(q, "w", func(i int) {
				id := fmt.Sprint("e", i)
				r.check(r.e.Resume(r.ctx, q))
				r.acceptJobs(expiringJob(r.clock.Now().Add(11*time.Second), q, id))
				v := r.grant(q, 1, id)[0]
				r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
				r.watching("w", q)
				back(v)
				r.clock.Advance(time.Second)
			})
		}
	}},
	{"a watcher without a free handler gives up the watch", func(r *rig) {
		q, other := r.queue("g.q", "unlimited"), r.stopped("g.other")
		r.awaitWake(q, "", func(i int) {
			r.reserveAs("other", q, queue.MaxReserve)
			r.watching("w", q)
			r.reserveAs("other", q, queue.MaxReserve)
			r.acceptJobs(
				job(q, fmt.Sprint("j", i)), expiringJob(r.clock.Now().Add(time.Hour), other, fmt.Sprint("e", i)),
			)
			res := r.reserveAs("w", q, 1)
			if len(res.Jobs) != 1 {
				r.Fatalf("granted %v", ids(res.Jobs))
			}
			r.deliver(res.Jobs...)
			r.cancels(queue.Cancelled, other, fmt.Sprint("e", i))
		})
	}},
}
