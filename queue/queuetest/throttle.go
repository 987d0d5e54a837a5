package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
)

// tooMany settles a job as throttled with the receiver's wait, or 0 if it named none, and returns the length of the
// stop.
func (r *rig) tooMany(v queue.Reservation, said time.Duration) time.Duration {
	r.Helper()
	s := settlement(queue.Throttle, v)
	s.Reason, s.After, s.Untold = "429 slow down", said, true
	got := r.settle(s)[0]
	if got.Stale || got.Err != nil || got.State != queue.Waiting {
		r.Fatalf("throttled %s: %+v", v.ID, got)
	}
	return got.Effect.Stopped
}

// spared has the first job of a queue throttled and checks that the queue stops for want or up to a quarter longer. It
// returns when the stop is over.
func (r *rig) spared(queueName string, said, want time.Duration) {
	r.Helper()
	got := r.reserve(queueName, 1)
	if len(got) != 1 {
		r.Fatalf("%d jobs were granted", len(got))
	}
	long := r.tooMany(got[0], said)
	if long < want || long > want+want/4 {
		r.Errorf("stopped for %v, want %v to %v", long, want, want+want/4)
	}
	r.stops(queueName, r.clock.Now().Add(long), queue.StopThrottled, "429 slow down")
	r.clock.Advance(long)
}

// grown throttles a new queue three times.
func (r *rig) grown(rate string) string {
	r.Helper()
	q := r.queue("q", rate)
	r.accept(q, numbered("j", 30)...)
	for _, seconds := range []int{1, 2, 4} {
		r.spared(q, 0, time.Duration(seconds)*time.Second)
	}
	return q
}

var sparedRules = []rule{
	{"a receiver that names no wait is spared for 1, 2, 4 ... 60 s", func(r *rig) {
		q := r.grown("unlimited")
		for _, seconds := range []int{8, 16, 32, 60, 60, 60} {
			r.spared(q, 0, time.Duration(seconds)*time.Second)
		}
		if i := r.info(q); i.Throttled != 9 || i.Waiting != 30 {
			r.Errorf("counted %d throttled, %d wait", i.Throttled, i.Waiting)
		}
	}},
	{"after a success the series starts again", func(r *rig) {
		q := r.grown("unlimited")
		r.deliver(r.reserve(q, 1)...)
		r.spared(q, 0, time.Second)
		r.spared(q, 0, 2*time.Second)
	}},
	{"a permanent failure shows that the receiver accepts jobs, a temporary one does not", func(r *rig) {
		q := r.grown("unlimited")
		s := settlement(queue.Fail, r.reserve(q, 1)[0])
		s.Trouble = true
		r.settle(s)
		r.spared(q, 0, 8*time.Second)
		r.settle(settlement(queue.Bury, r.reserve(q, 1)[0]))
		r.spared(q, 0, time.Second)
	}},
	{"a departure from before a stop proves nothing new", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 30)...)
		crowd := r.reserve(q, 20)
		first := r.tooMany(crowd[0], 0)
		for _, v := range crowd[1:10] {
			if more := r.tooMany(v, 0); more != 0 {
				r.Errorf("stopped for %v more", more)
			}
		}
		r.deliver(crowd[10:19]...) // and a success from before it does not end it
		if first < time.Second || first > 1250*time.Millisecond {
			r.Errorf("stopped for %v", first)
		}
		r.clock.Advance(first)
		if more := r.tooMany(crowd[19], 0); more != 0 {
			r.Errorf("a departure from before the stop, answered after it, stopped for %v", more)
		}
		r.spared(q, 0, 2*time.Second)
	}},
	{"a wait below a second counts the first time only", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 30)...)
		v := r.reserve(q, 1)
		if got := r.tooMany(v[0], 200*time.Millisecond); got != 200*time.Millisecond {
			r.Errorf("stopped for %v, want 200ms", got)
		}
		r.clock.Advance(200 * time.Millisecond)
		r.spared(q, 200*time.Millisecond, 2*time.Second)
		r.spared(q, 200*time.Millisecond, 4*time.Second)
	}},
	{"a named wait is used as it is and does not restart the series", func(r *rig) {
		q := r.grown("unlimited")
		r.clock.Advance(time.Second)
		stop := r.throttles(q, 3*time.Second)
		r.clock.Set(stop)
		r.spared(q, 0, 8*time.Second)
	}},
	{"jobs return at different times", func(r *rig) {
		seen := map[time.Duration]bool{}
		for i := range 20 {
			q := r.queue(fmt.Sprint("q", i), "unlimited")
			r.accept(q, fmt.Sprint("job", i))
			seen[r.tooMany(r.reserve(q, 1)[0], 0)] = true
		}
		if len(seen) < 15 {
			r.Errorf("20 queues stop for %d different times", len(seen))
		}
	}},
	{"resuming a queue ends the series", func(r *rig) {
		q := r.grown("unlimited")
		r.check(r.e.Resume(r.ctx, q))
		r.spared(q, 0, time.Second)
	}},
	{"a put does not end it", func(r *rig) {
		q := r.grown("unlimited")
		r.put(spec(q, "100/s"))
		r.spared(q, 0, 8*time.Second)
	}},
	{"any drainer's answer counts for all", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 30)...)
		for i, seconds := range []int{1, 2, 4, 8} {
			got := r.reserveAs(fmt.Sprint("drainer", i), q, 1).Jobs
			stopped := r.tooMany(got[0], 0)
			if want := time.Duration(seconds) * time.Second; stopped < want || stopped > want+want/4 {
				r.Errorf("drainer %d: stopped for %v, want %v", i, stopped, want)
			}
			r.clock.Advance(stopped)
		}
	}},
	{"a repeated settlement gets the same answer and counts once", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		s := settlement(queue.Throttle, r.reserve(q, 1)[0])
		s.Untold = true
		stopped := r.settle(s)[0].Effect.Stopped
		if again := r.settle(s)[0]; again.State != queue.Waiting || again.Effect != (queue.Effect{}) {
			r.Errorf("repeated: %+v", again)
		}
		r.clock.Advance(stopped)
		s = settlement(queue.Throttle, r.reserve(q, 1)[0])
		s.Untold = true
		if got := r.settle(s)[0].Effect.Stopped; got < 2*time.Second || got > 2500*time.Millisecond {
			r.Errorf("stopped for %v, want 2s", got)
		}
	}},
}
