package queuetest

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
)

// awaitWake triggers repeatedly until a wake-up for client arrives, because wake-ups may be missed and a subscription
// takes a moment to become active.
func (r *rig) awaitWake(queueName, client string, trigger func(i int)) {
	r.Helper()
	ear := r.listen(queueName)
	defer ear.cancel()
	for i := range 100 {
		trigger(i)
		if ear.hears(client) {
			return
		}
	}
	r.Fatalf("%q was not woken; heard %v", client, ear.heard)
}

// wakeListener listens for the wake-ups of one queue's partition.
type wakeListener struct {
	*rig
	partition int
	wakeups   <-chan queue.Wakeup
	cancel    context.CancelFunc
	heard     []queue.Wakeup
}

func (r *rig) listen(queueName string) *wakeListener {
	ctx, cancel := context.WithCancel(r.ctx)
	return &wakeListener{rig: r, partition: r.partition(queueName), wakeups: r.e.Wake(ctx), cancel: cancel}
}

// hears waits a moment for a wake-up for client.
func (e *wakeListener) hears(client string) bool {
	e.Helper()
	patience := time.After(100 * time.Millisecond)
	for {
		select {
		case w, ok := <-e.wakeups:
			if !ok {
				e.Fatal("the channel was closed")
			}
			if w == (queue.Wakeup{Partition: e.partition, Client: client}) {
				return true
			}
			e.heard = append(e.heard, w)
		case <-patience:
			return false
		}
	}
}

// watching makes client the watcher and returns the jobs granted to it.
func (r *rig) watching(client, queueName string) []queue.Reservation {
	r.Helper()
	r.clock.Advance(10 * time.Second) // any earlier watcher has been silent for too long
	res := r.reserveAs(client, queueName, queue.MaxReserve)
	if res.Next <= 0 {
		r.Fatalf("%s: next in %v", client, res.Next)
	}
	return res.Jobs
}

var watchRules = []rule{
	{"the watcher is told the exact time to look", func(r *rig) {
		q := r.queue("q", "1/s")
		nextIn := func(want time.Duration) {
			r.Helper()
			if res := r.reserveAs("client", q, 9); res.Next != want || res.Backup != 250*time.Millisecond {
				r.Errorf("next in %v and backup %v, want %v and 250ms", res.Next, res.Backup, want)
			}
		}
		nextIn(2 * time.Second) // the queue is empty: the 2 s check
		r.accept(q, "a", "b")
		nextIn(975 * time.Millisecond) // b departs in a second: half a horizon before that
		r.clock.Advance(900 * time.Millisecond)
		nextIn(75 * time.Millisecond)
		r.clock.Advance(75 * time.Millisecond)
		nextIn(2 * time.Second)
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.accept(q, "c")
		nextIn(2 * time.Second)
	}},
	{"departures closer than half a horizon leave no time to sleep", func(r *rig) {
		q := r.queue("q", "1000/s")
		r.accept(q, numbered("j", 200)...)
		if res := r.reserveAs("client", q, 500); len(res.Jobs) != 51 || res.Next != 26*time.Millisecond {
			r.Errorf("%d jobs, next in %v; want 51 up to the horizon, and 26ms", len(res.Jobs), res.Next)
		}
	}},
	{"a scheduled job makes the watcher look", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		r.fail(time.Second, r.grant(q, 9, "a")...)
		// The job is not granted ahead of its time, so an earlier look is useless.
		if res := r.reserveAs("client", q, 9); res.Next != time.Second {
			r.Errorf("next in %v, want 1s", res.Next)
		}
	}},
	{"one client watches, and the others check that it does", func(r *rig) {
		q := r.queue("q", "1/s")
		r.accept(q, "a", "b", "c")
		if res := r.reserveAs("one", q, 9); res.Next != 975*time.Millisecond || res.Backup != 250*time.Millisecond {
			r.Errorf("the first: next in %v, backup %v", res.Next, res.Backup)
		}
		if res := r.reserveAs("two", q, 9); res.Next != 1475*time.Millisecond || res.Backup != 500*time.Millisecond {
			r.Errorf("the second: next in %v, backup %v; want 1.475s, 500ms", res.Next, res.Backup)
		}
		if res := r.reserveAs("three", q, 9); res.Next != 1725*time.Millisecond || res.Backup != 750*time.Millisecond {
			r.Errorf("the third: next in %v, backup %v; want 1.725s, 750ms", res.Next, res.Backup)
		}
		r.clock.Advance(975 * time.Millisecond)
		if res := r.reserveAs("one", q, 9); len(res.Jobs) != 1 || res.Next != time.Second ||
			res.Backup != 750*time.Millisecond {
			r.Errorf("the watcher, on time: %d jobs, %v, %v", len(res.Jobs), res.Next, res.Backup)
		}
		// The watcher dies. A client that looks soon after returns once nothing is granted ahead any more, and takes
		// over.
		r.clock.Advance(1010 * time.Millisecond)
		if res := r.reserveAs("two", q, 9); len(res.Jobs) != 1 || res.Next != 15*time.Millisecond {
			r.Errorf("the watcher is late by 10ms: %d jobs, next in %v; want 15ms", len(res.Jobs), res.Next)
		}
		r.clock.Advance(15 * time.Millisecond)
		if res := r.reserveAs("two", q, 9); res.Next != 2*time.Second {
			r.Errorf("the new watcher: next in %v, want 2s", res.Next)
		}
		if res := r.reserveAs("one", q, 9); res.Next != 2*time.Second {
			r.Errorf("the old watcher, back: %v", res.Next)
		}
		// Clients silent for 4 s do not count: three is long dead.
		r.clock.Advance(3 * time.Second)
		if res := r.reserveAs("two", q, 9); res.Backup != 500*time.Millisecond {
			r.Errorf("backup %v with two clients in the last 4s", res.Backup)
		}
		r.clock.Advance(2 * time.Second)
		if res := r.reserveAs("two", q, 9); res.Backup != 250*time.Millisecond {
			r.Errorf("backup %v with one client in the last 4s", res.Backup)
		}
	}},
	{"a watcher that asks often has a deputy", func(r *rig) {
		q := r.queue("q", "100/s")
		r.accept(q, numbered("j", 200)...)
		asks := func(client string, jobs int, ms int64) {
			r.Helper()
			res := r.reserveAs(client, q, 100)
			if want := time.Duration(ms) * time.Millisecond; len(res.Jobs) != jobs || res.Next != want || len(res.Lost) > 0 {
				r.Errorf("%s: %d jobs, next in %v, lost %v; want %d, %v", client, len(res.Jobs), res.Next, res.Lost, jobs, want)
			}
		}
		wait := func(ms int64) { r.clock.Advance(time.Duration(ms) * time.Millisecond) }
		asks("watcher", 6, 35) // up to the horizon; the next departs at 60
		asks("deputy", 0, 4*35)
		asks("third", 0, 35+750)
		wait(35)
		asks("watcher", 3, 30)
		wait(25)
		asks("deputy", 3, 5+25)
		wait(5)
		asks("watcher", 0, 30)
		wait(25)
		asks("deputy", 3, 5+25)
		// The watcher is dead. The deputy comes before a slot is lost, and has a deputy of its own.
		wait(30)
		asks("deputy", 3, 35)
		asks("third", 0, 4*35)
	}},
	{"the backup is at most two seconds", func(r *rig) {
		q := r.queue("q", "1/s")
		for i := range 20 {
			res := r.reserveAs(fmt.Sprint("c", i), q, 9)
			if want := min(2*time.Second, time.Duration(i+1)*250*time.Millisecond); res.Backup != want {
				r.Errorf("%d clients: backup %v, want %v", i+1, res.Backup, want)
			}
		}
	}},
	{"an append to an idle queue wakes the watcher", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.awaitWake(q, "w", func(i int) {
			r.deliver(r.watching("w", q)...)
			r.accept(q, fmt.Sprint("j", i))
		})
	}},
	{"a release wakes the watcher", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		r.awaitWake(q, "w", func(int) { r.release(r.watching("w", q)...) })
	}},
	{"a failure that is due at once wakes the watcher", func(r *rig) {
		q := r.queue("q", "unlimited", func(s *queue.Spec) { s.Retry.MaxAttempts = 1000 })
		r.accept(q, "a")
		r.awaitWake(q, "w", func(int) { r.fail(0, r.watching("w", q)...) })
	}},
	{"a resume wakes the watcher", func(r *rig) {
		q := r.queue("q", "1/d")
		r.accept(q, "a", "b")
		r.deliver(r.grant(q, 9, "a")...)
		q2 := r.queue("g.q2", "unlimited")
		r.queue("g.q3", "unlimited")
		r.awaitWake(q2, "w", func(i int) {
			r.check(r.e.Pause(r.ctx, q2, queue.Pause{}))
			r.accept(q2, fmt.Sprint("j", i))
			if got := r.watching("w", q2); len(got) != 0 {
				r.Fatalf("paused, it granted %v", ids(got))
			}
			r.check(r.e.Resume(r.ctx, q2))
		})
	}},
	{"a raised rate wakes the watcher", func(r *rig) {
		q := r.queue("q", "1/h")
		r.accept(q, numbered("j", 300)...)
		r.awaitWake(q, "w", func(int) {
			r.queue(q, "1/h")
			r.deliver(r.watching("w", q)...)
			r.queue(q, "100/s")
		})
	}},
	{"a watcher without a free handler gives up the watch and wakes all clients", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.awaitWake(q, "", func(i int) {
			r.reserveAs("other", q, queue.MaxReserve)
			r.deliver(r.watching("w", q)...)
			r.reserveAs("other", q, queue.MaxReserve)
			r.accept(q, numbered(fmt.Sprint("j", i, "-"), 3)...)
			res := r.reserveAs("w", q, 1)
			if len(res.Jobs) != 1 || res.Next != 0 {
				r.Fatalf("granted %v, next in %v", ids(res.Jobs), res.Next)
			}
			r.deliver(res.Jobs...)
		})
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		if res := r.reserveAs("other", q, 9); res.Next != 2*time.Second {
			r.Errorf("the other client: next in %v, so it does not watch", res.Next)
		}
	}},
	{"while no client watches, all are woken again and again", func(r *rig) {
		q, idle, other := r.queue("g.q", "unlimited"), r.queue("g.idle", "unlimited"), r.queue("g.other", "unlimited")
		ear := r.listen(q)
		defer ear.cancel()
		for i := range 100 {
			r.deliver(r.watching("w", q)...)
			r.accept(q, fmt.Sprint("j", i))
			res := r.reserveAs("w", q, 1) // all that it has handlers for: it gives up the watch
			if len(res.Jobs) != 1 || res.Next <= 0 {
				r.Fatalf("granted %v, next in %v, and nothing is left", ids(res.Jobs), res.Next)
			}
			r.deliver(res.Jobs...)
			r.clock.Advance(time.Second)
			r.accept(idle, fmt.Sprint("j", i))
			if !ear.hears("") {
				continue // missed, as a wake-up may be
			}
			r.clock.Advance(250 * time.Millisecond) // nobody came
			r.accept(other, fmt.Sprint("j", i))
			if ear.hears("") {
				return
			}
		}
		r.Fatalf("nobody watched, and nobody was woken twice; heard %v", ear.heard)
	}},
	{"when the watcher is overdue, all clients are woken", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.awaitWake(q, "", func(i int) {
			r.deliver(r.watching("w", q)...)
			r.clock.Advance(2*time.Second + 250*time.Millisecond)
			r.accept(q, fmt.Sprint("j", i))
		})
	}},
	{"the channel is closed with its context", func(r *rig) {
		ctx, cancel := context.WithCancel(r.ctx)
		ear := r.e.Wake(ctx)
		cancel()
		late := time.After(10 * time.Second)
		for {
			select {
			case _, ok := <-ear:
				if !ok {
					return
				}
			case <-late:
				r.Fatal("still open after 10 s")
			}
		}
	}},
}
